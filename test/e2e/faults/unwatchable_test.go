// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// unwatchable are what a proxy between client and server answers to watches, while it lets lists through.
var unwatchable = map[string]func(*http.Request) (*http.Response, error){
	"503": func(request *http.Request) (*http.Response, error) {
		return answer(request, http.StatusServiceUnavailable), nil
	},
	"429": func(request *http.Request) (*http.Response, error) {
		return answer(request, http.StatusTooManyRequests), nil
	},
	"a closed connection": func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
}

func answer(request *http.Request, code int) *http.Response {
	response := &http.Response{
		StatusCode: code, Proto: "HTTP/2.0", ProtoMajor: 2, Request: request,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(bytes.NewReader([]byte("no watches"))),
	}
	if code == http.StatusTooManyRequests {
		response.Header.Set("Retry-After", "1")
	}
	return response
}

// testUnwatchable fails each watch between client and server. Lists work. Then watches work, too.
func testUnwatchable(t *testing.T, cluster *e2e.Cluster, name string) {
	fault := "watches answered with " + name
	var heals atomic.Bool
	config := cluster.ThroughProxy(cluster.Admin())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if heals.Load() || request.URL.Query().Get("watch") == "" {
				return next.RoundTrip(request)
			}
			return unwatchable[name](request)
		})
	})
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	names := r.prepare(many)
	want := r.onServer()
	began := time.Now()
	r.reference(names...)
	took := r.eventually(func() error { return r.allAgree(names, want) })
	r.observe(fault, "served by list", r.requests.rate(time.Since(began)), took)
	took = r.eventually(func() error {
		return r.all(names, func(s objectcache.Status) error {
			if s.Stream != objectcache.StreamPolled || s.Phase != objectcache.PhaseServing || s.LastError == nil {
				return fmt.Errorf("got %s, %s and error %w, want Polled, Serving and an error", s.Stream, s.Phase, s.LastError)
			}
			return nil
		})
	})
	r.observe(fault, "Status shows that the objects are polled", "all", took)
	if name != "503" {
		return // the rest is the same, and takes a minute
	}
	r.requests.reset()
	r.during(pause(countTime), func() error { return nil })
	r.observe(fault, "requests meanwhile", r.requests.rate(countTime), countTime)
	heals.Store(true)
	r.observe(fault, "streams are open once watches work", "all", r.converged(names))
}

// testLostAnswer never answers the first request of each of 20 new objects. A Get waits for each.
func testLostAnswer(t *testing.T, cluster *e2e.Cluster) {
	const fault = "one answer of each of 20 objects lost"
	var lost, losing atomic.Int64
	config := cluster.ThroughProxy(cluster.Admin())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if !strings.Contains(request.URL.Query().Get("fieldSelector"), "lost-") || lost.Add(1) > losing.Load() {
				return next.RoundTrip(request)
			}
			<-request.Context().Done()
			return nil, request.Context().Err()
		})
	})
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	r.reference(r.prepare(many)...)
	lostNames := make([]string, 20)
	for i := range lostNames {
		lostNames[i] = fmt.Sprint("lost-", i)
	}
	r.each(lostNames, func(ctx context.Context, name string) error { return r.tryPut(ctx, name, "first") })
	losing.Store(int64(len(lostNames)))
	r.reference(lostNames...)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	errs := make(chan error, len(lostNames))
	for _, name := range lostNames {
		go func() { _, err := r.store.Get(ctx, r.namespace, name); errs <- err }()
	}
	var err error
	for range lostNames {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.observe(fault, "Gets that wait for them", "the slowest", time.Since(began))
}

// The documented alert is about the cause of an outage: it must fire, too, for a program that references one Secret.
func TestOneReference(t *testing.T) {
	t.Parallel()
	const fault = "API server killed"
	cluster := e2e.New(t, e2e.Options{})
	gate := objectcache.NewGate(objectcache.GateOptions{})
	r := newRig(t, cluster, "one-reference", nil, objectcache.WatchOptions{Gate: gate})
	names := r.prepare(1)
	r.reference(names...)
	r.converged(names)
	cluster.APIServer.Kill()
	took := r.eventually(func() error {
		if gate.Status().Cause == nil {
			return errors.New("the gate reports no outage")
		}
		return nil
	})
	r.observe(fault, "the Gate reports an outage", "with its cause", took)
	if err := cluster.APIServer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.observe(fault, "newest state of all is served", "the object", r.converged(names))
	if err := gate.Status().Cause; err != nil {
		t.Errorf("after the outage: got cause %v, want none", err)
	}
}
