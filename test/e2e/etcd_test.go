// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// fakeEtcd answers every request with the same status and body, and records the requests.
func fakeEtcd(t *testing.T, status int, body string) (*etcd, *[]string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := newEtcd(dir)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", e.socket)
	if err != nil {
		t.Fatal(err)
	}
	var requests []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		requests = append(requests, r.Method+" "+r.URL.Path+" "+string(content))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return e, &requests
}

func TestEtcdReady(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"healthy":            {http.StatusOK, `{"health":"true","reason":""}`, ""},
		"no leader":          {http.StatusOK, `{"health":"false","reason":"RAFT NO LEADER"}`, "etcd is not healthy: RAFT NO LEADER"},
		"unavailable":        {http.StatusServiceUnavailable, `{"health":"false"}`, "etcd /health: Service Unavailable"},
		"not JSON":           {http.StatusOK, `<html>`, "etcd /health: invalid character"},
		"error page":         {http.StatusBadGateway, `<html>`, "etcd /health: Bad Gateway"},
		"error with a cause": {http.StatusBadRequest, `{"code":3,"message":"bad"}`, "etcd /health: bad"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := fakeEtcd(t, test.status, test.body)
			got := errorText(e.ready(t.Context()))
			if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCompactRequests(t *testing.T) {
	e, requests := fakeEtcd(t, http.StatusOK, `{"header":{"revision":"42"}}`)
	c := &Cluster{etcd: e}
	if err := c.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{`POST /v3/kv/range {"key":"AA=="}`, `POST /v3/kv/compaction {"physical":true,"revision":"42"}`}
	if !slices.Equal(*requests, want) {
		t.Errorf("got %q, want %q", *requests, want)
	}
}

func TestCorruptRequest(t *testing.T) {
	e, requests := fakeEtcd(t, http.StatusOK, `{}`)
	if err := (&Cluster{etcd: e}).Corrupt(t.Context(), "secrets", "default", "jo"); err != nil {
		t.Fatal(err)
	}
	// "/registry/secrets/default/jo" and "no object"
	want := []string{`POST /v3/kv/put {"key":"L3JlZ2lzdHJ5L3NlY3JldHMvZGVmYXVsdC9qbw==","value":"bm8gb2JqZWN0"}`}
	if !slices.Equal(*requests, want) {
		t.Errorf("got %q, want %q", *requests, want)
	}
}

func TestEtcdCompactErrors(t *testing.T) {
	e, _ := fakeEtcd(t, http.StatusBadRequest, `{"code":11,"message":"compacted"}`)
	var refused *etcdError
	if err := e.compact(t.Context(), "42"); !errors.As(err, &refused) || refused.Code != etcdCompacted {
		t.Errorf("got %v, want code %d", err, etcdCompacted)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.compact(ctx, "42"); !errors.Is(err, context.Canceled) {
		t.Errorf("context has ended: got %v, want %v", err, context.Canceled)
	}
	stopped := newEtcd(t.TempDir())
	if err := (&Cluster{etcd: stopped}).Compact(t.Context()); err == nil {
		t.Error("no etcd: got no error, want one")
	}
}

// The options' arguments are last, so that they override the others.
func TestAPIServerArgs(t *testing.T) {
	args := func(options Options) []string {
		return apiServerArgs("dir", &port{number: 7}, newEtcd("dir").url(), options)
	}
	const off = "--feature-gates=WatchList=false"
	plain := args(Options{})
	if slices.Contains(plain, off) {
		t.Errorf("got %s by default, want WatchList on", off)
	}
	for _, want := range []string{"--secure-port=7", "--authorization-mode=Node,RBAC", "--etcd-servers=unix://dir/etcd.sock"} {
		if !slices.Contains(plain, want) {
			t.Errorf("got %q, want %s among them", plain, want)
		}
	}
	got := args(Options{DisableWatchList: true, APIServerArgs: []string{"--a", "--b"}})
	if want := append(slices.Clone(plain), off, "--a", "--b"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
