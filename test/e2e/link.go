// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"time"
)

// chunk is how many bytes a link reads at most before it passes them on.
const chunk = 32 << 10

// link is a connection through a [Proxy]: one from the client, and one to the server once that is reached. The
// proxy's mu guards server, closed and lost.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed with both connections

	server net.Conn
	closed bool
	lost   bool // in the black hole, for good
}

// connect notes the connection to the server. It fails, and closes it, if the link was closed meanwhile.
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

// close ends both connections. Whoever reads or writes them, or holds back bytes, notices.
func (l *link) close() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.closeLocked()
}

// closeLocked closes sockets under the lock: that does not wait, neither for the peer nor for data.
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

// pump passes on bytes in one direction until that ends. The end of one connection is the end of both, but for
// a lost link, where nobody is told.
func (l *link) pump(to, from net.Conn) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if !l.hold(time.Now(), func(s settings) time.Duration { return s.delay }) || !l.pass(to, buffer[:n]) {
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

// pass writes data as fast as it may, or not at all if the link is lost. It returns false if the link is closed.
func (l *link) pass(to net.Conn, data []byte) bool {
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
		if !l.hold(time.Now(), func(s settings) time.Duration { return transmission(n, s.rate) }) {
			return false
		}
		data = data[n:]
	}
	return true
}

// hold waits until so much time has passed, by the settings of that time. It returns false if the link is closed.
func (l *link) hold(since time.Time, long func(settings) time.Duration) bool {
	for {
		now, lost, changed := l.proxy.state(l)
		left := time.Until(since.Add(long(now)))
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

// portion is how many bytes are written at a time: a throttled link writes ten times a second.
func portion(rate int) int {
	if rate <= 0 {
		return chunk
	}
	return max(rate/10, 1)
}

// transmission is how long n bytes take.
func transmission(n, rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(rate)
}
