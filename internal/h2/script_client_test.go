// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// testClient is one connection of an HTTP/2 client.
type testClient interface {
	// reserve takes a slot for one stream, if the connection has one.
	reserve() bool
	release()
	// roundTrip sends a request on a reserved slot.
	roundTrip(*http.Request) (*http.Response, error)
	close()
}

var errNoSlot = errors.New("the connection has no slot")

// clientKind is a client under test, and the way it reads bodies.
type clientKind struct {
	name string
	dial func(testing.TB, net.Conn) testClient
	mode readMode
}

// readMode is what becomes of the body of a response.
type readMode int

const (
	readAll readMode = iota // a goroutine reads it
	receive                 // a Receiver takes it; it consumes at once
	hold                    // nobody reads it
	delay                   // a Receiver takes it; it consumes nothing
)

// reference is the client of net/http, with the same health check as ours.
var reference = clientKind{name: "net/http", dial: dialReference, mode: readAll}

func dialReference(t testing.TB, conn net.Conn) testClient {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{
		Protocols:   protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: 15 * time.Second,
		},
		DisableCompression: true,
	}
	cc, err := tr.NewClientConn(context.Background(), "http", "server:80") //nolint:usetesting // the client outlives no test
	check(t, err)
	return &referenceClient{cc}
}

type referenceClient struct{ cc *http.ClientConn }

func (c *referenceClient) reserve() bool { return c.cc.Reserve() == nil }
func (c *referenceClient) release()      { c.cc.Release() }
func (c *referenceClient) roundTrip(r *http.Request) (*http.Response, error) {
	return c.cc.RoundTrip(r)
}
func (c *referenceClient) close() { _ = c.cc.Close() }

// forEachClient runs test in a bubble once for each client and each way of reading.
func forEachClient(t *testing.T, test func(*testing.T, clientKind)) {
	t.Helper()
	forEachKind(t, clientKinds(), test)
}

// forEachOwn is forEachClient without the client of net/http.
func forEachOwn(t *testing.T, test func(*testing.T, clientKind)) {
	t.Helper()
	forEachKind(t, ownKinds(), test)
}

// eachClient and eachOwn return tests that run test in this way.
func eachClient(test func(*testing.T, clientKind)) func(*testing.T) {
	return func(t *testing.T) { forEachClient(t, test) }
}

func eachOwn(test func(*testing.T, clientKind)) func(*testing.T) {
	return func(t *testing.T) { forEachOwn(t, test) }
}

func forEachKind(t *testing.T, kinds []clientKind, test func(*testing.T, clientKind)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind.name, inBubble(func(t *testing.T) { test(t, kind) }))
	}
}

// call is a request and its response, as the caller sees them.
type call struct {
	mode   readMode
	cancel context.CancelFunc
	done   chan struct{} // closed when everything has ended
	// changed has an element when a field below has changed.
	changed chan struct{}

	mu     sync.Mutex
	closed bool // close was called: nothing more is heard of the stream
	late   int  // calls of the Receiver after close
	resp   *http.Response
	text   []byte
	err    error // of the header or the body; io.EOF at the regular end
	unread int   // what the Receiver of mode delay has not consumed
}

// get sends a request and reads the response in the client's way. It does not wait.
func get(c testClient, path string, mode readMode) *call {
	ctx, cancel := context.WithCancel(context.Background())
	r := &call{mode: mode, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}, 1)}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server"+path, http.NoBody)
	if err != nil {
		panic(err)
	}
	go func() {
		defer close(r.done)
		var resp *http.Response
		err := errNoSlot
		if c.reserve() {
			resp, err = c.roundTrip(req)
		}
		r.set(func() { r.resp, r.err = resp, err })
		if err != nil {
			return
		}
		switch mode {
		case readAll:
			r.readAll()
		case receive, delay:
			if body, ok := resp.Body.(Body); ok {
				body.Receive(&callReceiver{r, mode == delay})
				return
			}
			if mode == receive {
				r.readAll()
			}
		case hold:
		}
	}()
	return r
}

func (r *call) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *call) readAll() {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.resp.Body.Read(buf)
		r.set(func() {
			r.text = append(r.text, buf[:n]...)
			r.err = err
		})
		if err != nil {
			return
		}
	}
}

// callReceiver adds what it gets to a call.
type callReceiver struct {
	*call
	keeps bool
}

func (r *callReceiver) Data(p []byte) (consumed int) {
	r.set(func() {
		if r.err != nil {
			panic("Data after End")
		}
		if r.closed {
			r.late++
		}
		r.text = append(r.text, p...)
		if r.keeps {
			r.unread += len(p)
		} else {
			consumed = len(p)
		}
	})
	return consumed
}

func (r *callReceiver) End(err error) {
	r.set(func() {
		if r.err != nil {
			panic("End called twice")
		}
		if err == nil {
			panic("End called without an error")
		}
		if r.closed {
			r.late++
		}
		r.err = err
	})
}

// status is 0 until the header has come.
func (r *call) status() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resp == nil {
		return 0
	}
	return r.resp.StatusCode
}

func (r *call) body() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.text)
}

// failure is nil while the call goes on, and io.EOF after the regular end of the body.
func (r *call) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// end describes the state of a call: open, regular or error.
func (r *call) end() string {
	switch err := r.failure(); {
	case err == nil:
		return "open"
	case err == io.EOF && r.status() != 0: //nolint:errorlint // an error that wraps io.EOF is not the regular end
		return "regular"
	case errors.Is(err, io.EOF):
		return "an error that readers take for the regular end"
	default:
		return "error"
	}
}

// wantEnd compares the state of a call. The text says when, or of which stream.
func (r *call) wantEnd(t testing.TB, want, when string) {
	t.Helper()
	if got := r.end(); got != want {
		t.Errorf("got %s (%v) %s, want %s", got, r.failure(), when, want)
	}
}

// close closes the body, or ends the request if there is none yet.
func (r *call) close() {
	r.mu.Lock()
	resp := r.resp
	r.mu.Unlock()
	if resp != nil {
		_ = resp.Body.Close()
	}
	r.cancel()
	r.set(func() { r.closed = true })
}
