// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"net/http"
	"testing"
)

// lateHandshakes are settings for a reload while connections are opened. nginx 1.22 sends no GOAWAY on a connection
// whose TLS handshake ends after the reload has begun. The old process then waits until the connection has been idle
// for this long, by default 75 s.
var lateHandshakes = map[string]string{"nginx": "keepalive_timeout 5s;"}

// A reload ends no stream and fails no opening: streams go on in the old process, which ends with the last of them. An
// opening of net/http's client may fail (see notEstablished).
func TestReload(t *testing.T) {
	t.Parallel()
	const before, during, after = 200, 100, 50
	for _, front := range frontEnds {
		for _, c := range []client{refwatch, netHTTP} {
			t.Run(testName(front.name, c.name), func(t *testing.T) {
				feed := newFeed(t)
				proxy := front.start(t, frontEndOptions{backend: feed.serve(t), server: lateHandshakes[front.name]})
				w := newWatcher(t, c, proxy.address)
				w.open(before)
				opened := make(chan struct{})
				go func() {
					defer close(opened)
					w.open(during)
				}()
				proxy.reload()
				<-opened
				w.open(after)
				w.publish(feed, "update")
				w.alive()
				w.close()
				feed.wait(t, 0)
				if c.own {
					// net/http's client may keep a connection that was idle when GOAWAY came, until the pool
					// closes it after 90 s.
					proxy.waitForOld()
				}
				seen := "no stream ended, and no opening failed"
				if !c.own {
					seen = "no stream ended; an opening may fail once"
				}
				results.add(front.name, "a reload while streams are opened", c, seen)
			})
		}
	}
}

// GOAWAY on an idle connection closes it, so that a reload is not held up.
func TestReloadWhileIdle(t *testing.T) {
	t.Parallel()
	for _, front := range frontEnds {
		t.Run(testName(front.name), func(t *testing.T) {
			feed := newFeed(t)
			proxy := front.start(t, frontEndOptions{backend: feed.serve(t)})
			w := newWatcher(t, refwatch, proxy.address)
			w.open(10)
			w.close()
			feed.wait(t, 0)
			proxy.reload()
			proxy.waitForOld()
			w.connections.waitForNone(t)
		})
	}
}

// A front end that closes idle connections fails no later opening.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	for _, front := range frontEnds {
		for _, c := range []client{refwatch, netHTTP} {
			t.Run(testName(front.name, c.name), func(t *testing.T) {
				feed := newFeed(t)
				w := newWatcher(t, c, front.start(t, frontEndOptions{backend: feed.serve(t), server: map[string]string{
					"nginx": "keepalive_timeout 1s;", "HAProxy": "timeout http-keep-alive 1s",
				}[front.name]}).address)
				for _, line := range []string{"first", "second"} {
					w.open(150)
					w.publish(feed, line)
					w.alive()
					w.close()
					w.connections.waitForNone(t)
				}
				results.add(front.name, "idle connections closed after 1 s", c, "150 streams opened again")
			})
		}
	}
}

// A front end that ends silent streams ends them for the client, and others open.
func TestSilentStreams(t *testing.T) {
	t.Parallel()
	for _, front := range frontEnds {
		for _, c := range []client{refwatch, netHTTP} {
			t.Run(testName(front.name, c.name), func(t *testing.T) {
				feed := newFeed(t)
				w := newWatcher(t, c, front.start(t, frontEndOptions{backend: feed.serve(t), server: map[string]string{
					"nginx": "proxy_read_timeout 3s;", "HAProxy": "timeout server 3s",
				}[front.name]}).address)
				w.open(30)
				w.waitForEnd()
				w.close()
				w.open(30)
				results.add(front.name, "silent streams ended after 3 s", c, "30 streams opened again")
			})
		}
	}
}

// A client that closes many streams soon after it opened them is not taken for an attacker (rapid reset): no other
// stream ends. The server learns of each end.
func TestManyResets(t *testing.T) {
	t.Parallel()
	const kept, rounds, each = 50, 10, 100
	servers := map[string]func(*testing.T, *feed) string{}
	for _, front := range frontEnds {
		servers[front.name] = func(t *testing.T, f *feed) string {
			return front.start(t, frontEndOptions{backend: f.serve(t)}).address
		}
	}
	for name, configure := range goServers {
		servers["Go: "+name] = func(t *testing.T, f *feed) string {
			return serveGo(t, f, func(s *http.Server) error { return configure(s, limits{}) }).address()
		}
	}
	for name, serve := range servers {
		for _, c := range []client{refwatch, netHTTP} {
			t.Run(testName(name, c.name), func(t *testing.T) {
				feed := newFeed(t)
				w := newWatcher(t, c, serve(t, feed))
				w.open(kept)
				for range rounds {
					w.open(each)
					w.closeAfter(kept)
				}
				feed.wait(t, kept)
				w.publish(feed, "update")
				w.alive()
				results.add(name, fmt.Sprintf("%d streams closed as soon as they were open", rounds*each), c,
					fmt.Sprintf("the other %d go on; connections: %d", kept, w.dialled()))
			})
		}
	}
}
