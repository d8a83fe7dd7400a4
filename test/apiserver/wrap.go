// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Middleware responds to a request instead of the server, or calls next, which is the server, with the same or other
// arguments. It may write any status, header and bytes, and may block until the context of r ends, which is when the
// client disconnects or the server closes. A panic with [http.ErrAbortHandler] resets the response: the HTTP/2 stream,
// or the HTTP/1.1 connection. A header "Connection: close" makes the server send a GOAWAY on the HTTP/2 connection of
// the request, as kube-apiserver's --goaway-chance does. The server calls it concurrently and without locks.
type Middleware func(w http.ResponseWriter, r *http.Request, request Request, next http.HandlerFunc)

// Wrap calls f for every request from now on, before [Server.Intercept], authenticated or not. The server records the
// request and the status that f sends. A nil f removes the middleware; requests that it serves go on.
func (s *Server) Wrap(f Middleware) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.wrap = f
}

// errBodyEnded is the error of a write after the end of the body. The handler then returns.
var errBodyEnded = errors.New("the body has ended")

// body is a ResponseWriter that passes writes and flushes through functions.
type body struct {
	http.ResponseWriter
	write func(p []byte) (int, error)
	flush func() error
}

func (b *body) Write(p []byte) (int, error) { return b.write(p) }

// FlushError is called by http.ResponseController.
func (b *body) FlushError() error { return b.flush() }

// EndBody returns a writer for a [Middleware] whose body ends after n bytes, as if it were complete. The client gets
// them at once. With n = 0 the body of a watch is empty.
func EndBody(w http.ResponseWriter, n int) http.ResponseWriter { return limitBody(w, n, func() {}) }

// ResetBody returns a writer for a [Middleware] that resets the response after n bytes of its body: the HTTP/2 stream,
// or the HTTP/1.1 connection. The client gets them first.
func ResetBody(w http.ResponseWriter, n int) http.ResponseWriter {
	return limitBody(w, n, func() { panic(http.ErrAbortHandler) })
}

func limitBody(w http.ResponseWriter, n int, end func()) http.ResponseWriter {
	flush := http.NewResponseController(w).Flush
	ended := func() error {
		_ = flush() // it fails only if the client has disconnected
		end()
		return errBodyEnded
	}
	return &body{w, func(p []byte) (int, error) {
		if len(p) < n {
			n -= len(p)
			return w.Write(p)
		}
		written, err := w.Write(p[:n])
		n = 0
		if err != nil {
			return written, err
		}
		return written, ended()
	}, func() error {
		if n == 0 {
			return ended()
		}
		return flush()
	}}
}

// HoldHeader returns a writer for a [Middleware] that sends the header with the first byte of the body, as some proxies
// do: the client of a watch waits for the response until the first event.
func HoldHeader(w http.ResponseWriter) http.ResponseWriter {
	begun := false
	return &heldHeader{body{w, func(p []byte) (int, error) {
		begun = true
		return w.Write(p)
	}, func() error {
		if !begun {
			return nil
		}
		return http.NewResponseController(w).Flush()
	}}}
}

// heldHeader sends only successful headers late: they are the ones that a flush would send.
type heldHeader struct{ body }

// WriteHeader leaves a successful status to the first Write, which sends it.
func (h *heldHeader) WriteHeader(code int) {
	if code != http.StatusOK {
		h.ResponseWriter.WriteHeader(code)
	}
}

// ThrottleBody returns a writer for a [Middleware] that sends one byte of the body after the other, with a pause before
// each. The writes end with an error when ctx does; use that of the request.
func ThrottleBody(ctx context.Context, w http.ResponseWriter, pause time.Duration) http.ResponseWriter {
	flush := http.NewResponseController(w).Flush
	return &body{w, func(p []byte) (int, error) {
		for i := range p {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return i, context.Cause(ctx)
			}
			if _, err := w.Write(p[i : i+1]); err != nil {
				return i, err
			}
			if err := flush(); err != nil {
				return i + 1, err
			}
		}
		return len(p), nil
	}, flush}
}
