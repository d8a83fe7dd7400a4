// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"testing"
)

// A reload ends no stream and fails no opening: streams go on in the old process, which ends with the last of them.
func TestReload(t *testing.T) {
	const before, during, after = 200, 100, 50
	for _, front := range frontEnds {
		for _, c := range []client{refwatch, reading, pooled} {
			t.Run(testName(front.name, c.name), func(t *testing.T) {
				feed := newFeed(t)
				proxy := front.start(t, frontEndOptions{backend: feed.serve(t)})
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
				proxy.waitForOld()
				results.addRun(front.name, "a reload", fmt.Sprintf("%s: no stream ended, and no opening failed", c.name))
			})
		}
	}
}

// A front end that closes idle connections fails no later opening.
func TestIdleConnections(t *testing.T) {
	for _, front := range frontEnds {
		for _, c := range []client{refwatch, reading, pooled} {
			t.Run(testName(front.name, c.name), func(t *testing.T) {
				feed := newFeed(t)
				w := newWatcher(t, c, front.start(t, frontEndOptions{backend: feed.serve(t), server: map[string]string{
					"nginx": "keepalive_timeout 1s;", "HAProxy": "timeout http-keep-alive 1s",
				}[front.name]}).address)
				for range 2 {
					w.open(150)
					w.publish(feed, "update")
					w.alive()
					w.close()
					w.connections.waitForNone(t)
				}
				results.addRun(front.name, "idle connections closed after 1 s",
					fmt.Sprintf("%s: closed, and 150 streams opened again", c.name))
			})
		}
	}
}

// A front end that ends silent streams ends them with their connections open, or closed, and others open.
func TestSilentStreams(t *testing.T) {
	for _, front := range frontEnds {
		for _, c := range []client{refwatch, reading, pooled} {
			t.Run(testName(front.name, c.name), func(t *testing.T) {
				feed := newFeed(t)
				w := newWatcher(t, c, front.start(t, frontEndOptions{backend: feed.serve(t), server: map[string]string{
					"nginx": "proxy_read_timeout 1s;", "HAProxy": "timeout server 1s",
				}[front.name]}).address)
				w.open(150)
				w.waitForEnd()
				cause := w.streams[0].err
				w.close()
				w.open(150)
				results.addRun(front.name, "streams that are silent for 1 s end",
					fmt.Sprintf("%s: they end (%v); 300 streams took %d connections", c.name, cause, w.connections.dialled.Load()))
			})
		}
	}
}
