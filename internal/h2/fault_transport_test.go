// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// fleet is a Transport whose connections lead to scripts, one for each dial.
type fleet struct {
	t         *testing.T
	transport *Transport
	counters  Counters
	scripts   []*exchange
	calls     []*call

	mu sync.Mutex
	// greet is what a server sends on a new connection; SETTINGS by default.
	greet func(*exchange)
}

// greetWith sets greet. Dials that a timer begins come after it.
func (f *fleet) greetWith(greet func(*exchange)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.greet = greet
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, greet: func(e *exchange) { e.settings() }}
	f.transport = New(nil)
	f.transport.pools["server"] = newPool(f.dial)
	t.Cleanup(func() {
		for _, e := range f.scripts {
			e.client.close()
		}
		synctest.Wait()
		for _, c := range f.calls {
			c.close()
			<-c.done
		}
		f.transport.CloseIdleConnections()
	})
	return f
}

func (f *fleet) dial(ctx context.Context, _ *http.Request, events connectionEvents) (connection, error) {
	up, down := memPipe(1 << 20)
	e := &exchange{kind: ownKinds()[1], wire: down, script: newScript(f.t, down, true)}
	c, err := newConn(up, events, connOptions{counters: countersOf(ctx)})
	if err != nil {
		return nil, err
	}
	e.client = &ownClient{c, &eventLog{}, f.t}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scripts = append(f.scripts, e)
	f.greet(e)
	return c, nil
}

// reserve, release and close make fleet a testClient.
func (f *fleet) reserve() bool { return true }
func (f *fleet) release()      {}
func (f *fleet) close()        {}

func (f *fleet) roundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.RawQuery = "https", "watch=true"
	return f.transport.RoundTrip(r.WithContext(WithParking(WithCounters(r.Context(), &f.counters))))
}

func (f *fleet) get(path string) *call {
	c := get(f, path, receive)
	f.calls = append(f.calls, c)
	synctest.Wait()
	return c
}

// wantDials checks how many connections were dialled.
func (f *fleet) wantDials(want int) {
	f.t.Helper()
	synctest.Wait()
	if got := len(f.scripts); got != want {
		f.t.Fatalf("got %d connections, want %d", got, want)
	}
}

// requestOn waits for a request on the n-th connection.
func (f *fleet) requestOn(n int) opened {
	f.t.Helper()
	f.wantDials(n + 1)
	return opened{id: f.scripts[n].request("/v?watch=true")}
}

// A request is sent again if the server has not processed it, or takes the connection for
// broken (PROTOCOL_ERROR), and not after another fault. One that was refused goes to another
// connection than the last time.
func TestFaultResent(t *testing.T) {
	for name, test := range map[string]struct {
		fault    func(e *exchange, id uint32)
		requests int
	}{
		"REFUSED_STREAM":           {func(e *exchange, id uint32) { e.reset(id, http2.ErrCodeRefusedStream) }, refusals},
		"GOAWAY":                   {func(e *exchange, id uint32) { e.goAway(0, http2.ErrCodeNo) }, attempts},
		"GOAWAY and cut":           {func(e *exchange, id uint32) { e.together(func() { e.goAway(0, http2.ErrCodeNo) }); e.cut() }, attempts},
		"GOAWAY with its id, cut":  {func(e *exchange, id uint32) { e.goAway(id, http2.ErrCodeNo); e.cut() }, 1},
		"INTERNAL_ERROR":           {func(e *exchange, id uint32) { e.reset(id, http2.ErrCodeInternal) }, 1},
		"PROTOCOL_ERROR":           {func(e *exchange, id uint32) { e.reset(id, http2.ErrCodeProtocol) }, refusals},
		"cut":                      {func(e *exchange, _ uint32) { e.cut() }, 1},
		"a malformed response":     {func(e *exchange, id uint32) { e.header(id) }, 1},
		"an error of the protocol": {func(e *exchange, _ uint32) { e.data(0, "x") }, 1},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			f := newFleet(t)
			c := f.get("/v")
			for n := range test.requests {
				if got, want := c.end(), "open"; got != want {
					t.Fatalf("got %s (%v) after %d requests, want %s", got, c.failure(), n, want)
				}
				e := f.scripts[len(f.scripts)-1]
				if n%2 == 0 && len(f.scripts) == 2 {
					e = f.scripts[0] // the last one refused
				}
				test.fault(e, e.request("/v?watch=true"))
				synctest.Wait()
			}
			if got, want := c.end(), "error"; got != want {
				t.Errorf("got %s (%v) after %d requests, want %s", got, c.failure(), test.requests, want)
			}
			if got, want := errors.Is(c.failure(), errUnprocessed), test.requests > 1 && name != "PROTOCOL_ERROR"; got != want {
				t.Errorf("got unprocessed %t (%v), want %t", got, c.failure(), want)
			}
		}))
	}
}

// A connection with GOAWAY serves its streams to their end while new ones use another.
func TestFaultGoAwayMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		old := f.get("/v")
		v := f.requestOn(0)
		first := f.scripts[0]
		first.ok(v.id)
		first.goAway(v.id, http2.ErrCodeNo)
		synctest.Wait()
		moved := f.get("/v")
		f.requestOn(1)
		first.data(v.id, "still here")
		synctest.Wait()
		if got, want := old.body(), "still here"; got != want {
			t.Errorf("got body %q, want %q", got, want)
		}
		moved.wantEnd(t, "open", "in the end")
		first.endData(v.id, "")
		if !first.closed() {
			t.Errorf("the first connection is open after its last stream")
		}
	})
}

// A connection that ends before the server's SETTINGS fails those that wait for it, and
// is not dialled again for them.
func TestFaultConnectionEndsUnused(t *testing.T) {
	for name, greet := range map[string]func(*exchange){
		"cut":          func(e *exchange) { e.cut() },
		"half a frame": func(e *exchange) { e.half(5, func() { e.settings() }); e.cut() },
		"GOAWAY":       func(e *exchange) { e.goAway(0, http2.ErrCodeNo) },
		"SETTINGS, GOAWAY": func(e *exchange) {
			e.together(func() {
				e.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
				e.goAway(0, http2.ErrCodeEnhanceYourCalm)
			})
		},
		"no HTTP/2": func(e *exchange) { e.bytes([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
		"silence":   func(*exchange) {},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			f := newFleet(t)
			f.greetWith(greet)
			calls := []*call{f.get("/a"), f.get("/b"), f.get("/c")}
			time.Sleep(46 * time.Second)
			synctest.Wait()
			for _, c := range calls {
				c.wantEnd(t, "error", "in the end")
			}
			if got, most := len(f.scripts), len(calls); got > most {
				t.Errorf("got %d connections for %d requests, want at most as many", got, most)
			}
		}))
	}
}
