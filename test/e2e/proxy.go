// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy passes on TCP connections to the API server, and TLS with them: it sees no requests. It does so at once
// and unchanged until it is told otherwise. What it is told holds from that moment on, for the bytes it has in
// hand as well.
type Proxy struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	running  sync.WaitGroup
	cancel   context.CancelFunc // ends what dials

	mu       sync.Mutex
	settings settings
	changed  chan struct{} // closed when settings change
	links    map[*link]struct{}
}

// settings are how the proxy treats bytes.
type settings struct {
	delay     time.Duration
	rate      int // bytes per second, 0 for no limit
	blackHole bool
}

// newTCPProxy starts a proxy on a port of its own.
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

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections. New ones are accepted.
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

// Delay holds everything back for d, in both directions: what arrives while something is held back waits for
// as long again, and so a stream has at most 32 KiB per d. 0 ends it.
func (p *Proxy) Delay(d time.Duration) { p.set(func(s *settings) { s.delay = d }) }

// Throttle lets each connection have so many bytes per second in each direction. 0 ends it.
func (p *Proxy) Throttle(bytesPerSecond int) { p.set(func(s *settings) { s.rate = bytesPerSecond }) }

// BlackHole swallows everything, in both directions, and tells nobody: connections open and stay open, their bytes
// are acknowledged and lost, and when one end closes the other does not learn of it. So it is with a firewall
// that has forgotten its connections.
//
// Switching it off is for new connections alone. Those that were open meanwhile stay as they are: with bytes
// missing they would not be worth having. [Proxy.Cut] gets rid of them.
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

// close ends the proxy and waits for all it has started.
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

// serve owns a connection from its beginning to its end.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	l := p.link(ctx, client)
	defer p.forget(l)
	if _, lost, _ := p.state(l); lost { // there is no way to the server
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
	if ctx.Err() != nil { // accepted while closing, which may not see it
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

// state returns how bytes of the link are to be treated, and what is closed when that changes.
func (p *Proxy) state(l *link) (now settings, lost bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings, l.lost, p.changed
}
