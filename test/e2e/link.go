// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"time"
)

// chunk is how many bytes a link reads at most at a time.
const chunk = 32 << 10

// link is a connection through a [Proxy]: one connection from the client, and one to the server. The proxy's mu guards
// server, closed and lost.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed with both connections

	server net.Conn
	closed bool
	lost   bool // was in a black hole; stays true
}

// connect sets the connection to the server. If the link was closed meanwhile, it closes the connection and returns
// false.
func (l *link) connect(server net.Conn) bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.closed {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// close closes both connections, which ends the goroutines that read, write or wait.
func (l *link) close() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.closeLocked()
}

// closeLocked closes sockets under the lock, which does not block.
func (l *link) closeLocked() {
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// pump forwards bytes in one direction until a connection ends. Then it closes both, unless the link is lost.
func (l *link) pump(to, from net.Conn) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if !l.wait(time.Now(), func(s settings) time.Duration { return s.delay }) || !l.forward(to, buffer[:n]) {
			return
		}
		if err != nil {
			if _, lost, _ := l.proxy.state(l); !lost {
				l.close()
			}
			return
		}
	}
}

// forward writes data at the configured rate. It drops data if the link is lost. It returns false if the link is
// closed.
func (l *link) forward(to net.Conn, data []byte) bool {
	for len(data) > 0 {
		now, lost, _ := l.proxy.state(l)
		if lost {
			return true
		}
		n, err := to.Write(data[:min(len(data), portion(now.rate))])
		if err != nil {
			l.close()
			return false
		}
		if !l.wait(time.Now(), func(s settings) time.Duration { return transmission(n, s.rate) }) {
			return false
		}
		data = data[n:]
	}
	return true
}

// wait waits until a duration, which depends on the current settings, has passed since a time. It returns false if the
// link is closed.
func (l *link) wait(since time.Time, duration func(settings) time.Duration) bool {
	for {
		now, lost, changed := l.proxy.state(l)
		left := time.Until(since.Add(duration(now)))
		if left <= 0 || lost {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
		case <-l.done:
			timer.Stop()
			return false
		}
	}
}

// portion returns how many bytes to write at a time: a throttled link writes ten times a second.
func portion(rate int) int {
	if rate <= 0 {
		return chunk
	}
	return max(rate/10, 1)
}

// transmission returns how long n bytes take.
func transmission(n, rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(rate)
}
