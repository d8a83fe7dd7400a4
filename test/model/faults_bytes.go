// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/apiserver"
)

// The faults of the bytes of responses. A fault ends the streams that it affects, so that their successors meet it.
func init() {
	addFaults(
		Fault{15, "watches-reset-at-any-byte", OfObjects, usualRecovery, atAnyByte(apiserver.ResetBody)},
		Fault{15, "watches-ended-at-any-byte", OfObjects, usualRecovery, atAnyByte(apiserver.EndBody)},
		Fault{16, "headers-held-back", OfObjects, usualRecovery, body(apiserver.HoldHeader)},
		Fault{19, "slow-body", OfObjects, usualRecovery, func(w *World, t Target) func() {
			return w.reopens(t, func(rw http.ResponseWriter, r *http.Request, _ apiserver.Request, next http.HandlerFunc) {
				next(apiserver.ThrottleBody(r.Context(), rw, 10*time.Millisecond), r)
			})
		}},
		Fault{20, "watches-end-at-once", OfObjects, usualRecovery, func(w *World, t Target) func() {
			return w.reopens(t, watches(func(request apiserver.Request) bool { return !isWatchList(request) }, ends(0)))
		}},
		Fault{21, "truncated-frames", OfObjects, usualRecovery, body(func(rw http.ResponseWriter) http.ResponseWriter { return apiserver.EndBody(rw, 60) })},
		Fault{21, "html", OfObjects, usualRecovery, raw("text/html", "<html><body>Please log in</body></html>")},
		Fault{21, "table", OfObjects, usualRecovery, raw("application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"rows":[]}`)},
		Fault{21, "not-json", OfObjects, usualRecovery, raw("application/json", `{"type":"ADDED","object":]]`)},
		Fault{21, "not-protobuf", OfObjects, usualRecovery, raw("application/vnd.kubernetes.protobuf;stream=watch", "\x00\x00\x00\x04abcd")},
		Fault{35, "path-not-found", OfKind, usualRecovery, func(w *World, t Target) func() {
			return w.reopens(t, func(rw http.ResponseWriter, r *http.Request, _ apiserver.Request, _ http.HandlerFunc) {
				http.NotFound(rw, r)
			})
		}},
		Fault{41, "watchlists-end-empty", OfObjects, usualRecovery, func(w *World, t Target) func() { return w.reopens(t, watches(isWatchList, ends(0))) }},
		Fault{41, "watchlists-end-in-a-frame", OfObjects, usualRecovery, func(w *World, t Target) func() { return w.reopens(t, watches(isWatchList, ends(30))) }},
		Fault{42, "frame-without-end", OfObjects, usualRecovery, frameWithoutEnd},
	)
}

// wrapRequests wraps the requests that a fault affects.
func (w *World) wrapRequests(t Target, f apiserver.Middleware) (remove func()) {
	return w.wrap(func(rw http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
		if t.Has(request) {
			w.reached()
			f(rw, r, request, next)
		} else {
			next(rw, r)
		}
	})
}

// reopens is wrapRequests, and ends the streams that are open. In the end it ends the responses that the fault has
// made: one of them may never end by itself, or only after an hour if another fault slows it down.
func (w *World) reopens(t Target, f apiserver.Middleware) (heal func()) {
	over, end := context.WithCancel(w.ctx)
	remove := w.wrapRequests(t, func(rw http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(over, cancel)()
		f(rw, r.WithContext(ctx), request, next)
	})
	w.closeStreams(t)
	return func() {
		remove()
		end()
	}
}

// body changes the bodies of all responses.
func body(change func(http.ResponseWriter) http.ResponseWriter) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		return w.reopens(t, func(rw http.ResponseWriter, r *http.Request, _ apiserver.Request, next http.HandlerFunc) {
			next(change(rw), r)
		})
	}
}

// raw responds with 200 and a text.
func raw(contentType, text string) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		return w.reopens(t, func(rw http.ResponseWriter, _ *http.Request, _ apiserver.Request, _ http.HandlerFunc) {
			rw.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(rw, text)
		})
	}
}

// atAnyByte ends each response some bytes later than the one before.
func atAnyByte(end func(http.ResponseWriter, int) http.ResponseWriter) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		bytes := 0
		return w.reopens(t, func(rw http.ResponseWriter, r *http.Request, _ apiserver.Request, next http.HandlerFunc) {
			w.mu.Lock()
			n := bytes % 700
			bytes += 13
			w.mu.Unlock()
			next(end(rw, n), r)
		})
	}
}

func isWatchList(request apiserver.Request) bool {
	return request.Query.Get("sendInitialEvents") == "true"
}

// watches applies f to the watches that match, and to no other request.
func watches(match func(apiserver.Request) bool, f apiserver.Middleware) apiserver.Middleware {
	return func(rw http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
		if request.Verb == "watch" && match(request) {
			f(rw, r, request, next)
		} else {
			next(rw, r)
		}
	}
}

// ends ends a response after some bytes.
func ends(n int) apiserver.Middleware {
	return func(rw http.ResponseWriter, r *http.Request, _ apiserver.Request, next http.HandlerFunc) {
		next(apiserver.EndBody(rw, n), r)
	}
}

// frameWithoutEnd sends 256 KiB a second of one frame, until the fault ends. A reader keeps up to 4 MiB of it, so few
// objects are affected.
func frameWithoutEnd(w *World, t Target) func() {
	t.objects = t.objects[:min(len(t.objects), 10)]
	return w.reopens(t, func(rw http.ResponseWriter, r *http.Request, _ apiserver.Request, _ http.HandlerFunc) {
		rw.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(rw, `{"type":"ADDED","object":{"data":{"content":"`)
		for err == nil {
			_, err = io.WriteString(rw, strings.Repeat("a", 256<<10))
			_ = http.NewResponseController(rw).Flush() // Write returns the error
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
	})
}
