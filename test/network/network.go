// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Dial dials a connection, as the Dial of a rest.Config does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Network dials the connections of a client. Its methods are safe for concurrent use.
type Network struct {
	backends []Dial

	mu        sync.Mutex
	onDial    func(number int) Dial
	onConnect func(*Conn)
	open      []*Conn // oldest first
	counts    Counts
}

// Counts are the numbers of a [Network].
type Counts struct {
	// Dials is the number of dials so far. Failed of them returned an error; those under way are neither.
	Dials, Failed int
	// Open is the number of connections that the client has not closed, whatever the network has done to them.
	Open int
}

// New returns a network that dials the backends in turn, as a load balancer does. Without one it dials with a
// [net.Dialer]. A nil Dial is none.
func New(backends ...Dial) *Network {
	backends = slices.DeleteFunc(slices.Clone(backends), func(d Dial) bool { return d == nil })
	if len(backends) == 0 {
		backends = []Dial{new(net.Dialer).DialContext}
	}
	return &Network{backends: backends}
}

// OnDial calls f with the number of each dial, from 0 on since New. The dial calls what f returns, such as [Refuse], or
// the backend whose turn it is if that is nil. f may block. A nil f ends it; dials that hang go on to hang.
func (n *Network) OnDial(f func(number int) Dial) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onDial = f
}

// OnConnect calls f with each new connection before the client gets it. A nil f ends it.
func (n *Network) OnConnect(f func(*Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onConnect = f
}

// Dial dials a connection. It is the Dial of a rest.Config.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	number, onDial := n.counts.Dials, n.onDial
	n.counts.Dials++
	n.mu.Unlock()
	dial := n.backends[number%len(n.backends)]
	if onDial != nil {
		if other := onDial(number); other != nil {
			dial = other
		}
	}
	inner, err := dial(ctx, network, address)
	n.mu.Lock()
	if err != nil {
		n.counts.Failed++
		n.mu.Unlock()
		return nil, err
	}
	c := newConn(n, number, inner)
	n.open = append(n.open, c)
	onConnect := n.onConnect
	n.mu.Unlock()
	if onConnect != nil {
		onConnect(c)
	}
	return c, nil
}

// Each calls f for each open connection, the oldest first, for instance (*Conn).Reset.
func (n *Network) Each(f func(*Conn)) {
	n.mu.Lock()
	open := slices.Clone(n.open)
	n.mu.Unlock()
	for _, c := range open {
		f(c)
	}
}

// Counts returns the numbers.
func (n *Network) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := n.counts
	counts.Open = len(n.open)
	return counts
}

func (n *Network) forget(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.open, c); i >= 0 {
		n.open = slices.Delete(n.open, i, i+1)
	}
}

// Refuse is the dial of a host where nothing listens: ECONNREFUSED.
func Refuse(_ context.Context, network, _ string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// hangTimeout is client-go's time-out of a dial.
const hangTimeout = 30 * time.Second

// Hang is the dial of a host that does not respond. It ends with the context, or with a time-out after 30 seconds, as
// client-go's dials do.
func Hang(ctx context.Context, network, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, hangTimeout)
	defer cancel()
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
}

// HangUp is the dial of a load balancer whose backend is dead: the connection is made, and closed at once.
func HangUp(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	return client, server.Close()
}
