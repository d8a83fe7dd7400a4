// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// exchange is one connection between a client and a script, in a bubble.
type exchange struct {
	*script
	kind   clientKind
	client testClient
	wire   *memConn // the server's end
	calls  []*call
}

// newExchange connects the client to a script that has sent its SETTINGS.
func newExchange(t testing.TB, kind clientKind, settings ...http2.Setting) *exchange {
	t.Helper()
	e := newSilentExchange(t, kind, 1<<20)
	e.accept(settings...)
	e.wait()
	return e
}

// newSilentExchange connects the client to a script that has sent nothing. The client's
// writes block when size bytes are unread.
func newSilentExchange(t testing.TB, kind clientKind, size int) *exchange {
	t.Helper()
	up, down := memPipe(size)
	e := &exchange{kind: kind, wire: down, script: newScript(t, down, true)}
	e.client = kind.dial(t, up)
	t.Cleanup(e.finish)
	return e
}

// finish closes the client, and checks that every call has ended with it.
func (e *exchange) finish() {
	e.wire.stall(false)
	e.client.close()
	synctest.Wait()
	if own, ok := e.client.(*ownClient); ok {
		if got := own.events.goneEvents(); got != 1 {
			e.t.Errorf("got %d reports that the connection takes no new streams, want 1", got)
		}
	}
	for _, c := range e.calls {
		if c.end() == "open" && !c.closed && (c.mode == readAll || c.mode == receive) {
			e.t.Errorf("a call is still open after the client was closed")
		}
		c.close()
		<-c.done
	}
}

func (e *exchange) get(path string) *call { return e.getAs(path, e.kind.mode) }

func (e *exchange) getAs(path string, mode readMode) *call {
	c := get(e.client, path, mode)
	e.calls = append(e.calls, c)
	return c
}

// wait returns when everything in the bubble waits for something.
func (e *exchange) wait() { synctest.Wait() }

// opened is a stream whose response has begun.
type opened struct {
	*call
	id uint32
}

// open sends a request of path and begins its response.
func (e *exchange) open(path string) opened { return e.openAs(path, e.kind.mode) }

func (e *exchange) openAs(path string, mode readMode) opened {
	e.t.Helper()
	c := e.getAs(path, mode)
	id := e.request(path)
	e.ok(id)
	e.wait()
	if c.status() != 200 {
		e.t.Fatalf("got status %d (%v), want 200", c.status(), c.failure())
	}
	return opened{c, id}
}
