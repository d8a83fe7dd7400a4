// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy forwards TCP connections to the API server. It does not decrypt TLS. By default it forwards bytes unchanged and
// at once. A change of its settings applies at once, also to bytes that are being delayed.
type Proxy struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	running  sync.WaitGroup
	cancel   context.CancelFunc // ends dials

	mu       sync.Mutex
	settings settings
	changed  chan struct{} // closed when settings change
	links    map[*link]struct{}
}

// settings are the faults of a proxy.
type settings struct {
	delay     time.Duration
	rate      int // bytes per second, 0 for no limit
	blackHole bool
}

// newTCPProxy starts a proxy on a free port.
func newTCPProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	return newProxy(listener, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", target)
	}), nil
}

func newProxy(listener net.Listener, dial func(context.Context) (net.Conn, error)) *Proxy {
	p := &Proxy{listener: listener, dial: dial, changed: make(chan struct{}), links: map[*link]struct{}{}}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.running.Go(func() { p.accept(ctx) })
	return p
}

// Addr returns the proxy's address as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections. New connections are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	var cut []*link
	for link := range p.links {
		cut = append(cut, link)
	}
	p.mu.Unlock()
	for _, link := range cut {
		link.close()
	}
}

// Connections returns how many connections are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Delay delays all bytes by d, in both directions. Bytes that arrive during a delay are delayed after it, so that a
// connection forwards at most 32 KiB per d. 0 ends the delay.
func (p *Proxy) Delay(d time.Duration) { p.set(func(s *settings) { s.delay = d }) }

// Throttle limits each connection to bytesPerSecond in each direction. 0 ends the limit.
func (p *Proxy) Throttle(bytesPerSecond int) { p.set(func(s *settings) { s.rate = bytesPerSecond }) }

// BlackHole drops all bytes, in both directions: connections can be opened and stay open, their bytes are acknowledged
// and lost, and neither end is notified when the other closes. A firewall that has lost its connection table does the
// same.
//
// BlackHole(false) applies to new connections only. Connections that were open in the black hole stay lost, as bytes
// are missing. [Proxy.Cut] closes them.
func (p *Proxy) BlackHole(on bool) { p.set(func(s *settings) { s.blackHole = on }) }

// Reset ends delay, throttle and black hole.
func (p *Proxy) Reset() { p.set(func(s *settings) { *s = settings{} }) }

func (p *Proxy) set(change func(*settings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.settings)
	for link := range p.links {
		link.lost = link.lost || p.settings.blackHole
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// close stops the proxy and waits for its goroutines.
func (p *Proxy) close() {
	_ = p.listener.Close()
	p.cancel()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(ctx, client) })
	}
}

// serve serves a connection until it ends.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	l := p.link(ctx, client)
	defer p.forget(l)
	if _, lost, _ := p.state(l); lost { // do not connect to the server
		l.pump(nil, client)
		return
	}
	server, err := p.dial(ctx)
	if err != nil || !l.connect(server) {
		return
	}
	var up sync.WaitGroup
	up.Go(func() { l.pump(server, client) })
	l.pump(client, server)
	up.Wait()
}

func (p *Proxy) link(ctx context.Context, client net.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &link{proxy: p, client: client, done: make(chan struct{}), lost: p.settings.blackHole}
	if ctx.Err() != nil { // accepted during close, which may miss it
		l.closeLocked()
	}
	p.links[l] = struct{}{}
	return l
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.closeLocked()
	delete(p.links, l)
}

// state returns the settings for a link, and a channel that is closed when they change.
func (p *Proxy) state(l *link) (now settings, lost bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings, l.lost, p.changed
}
