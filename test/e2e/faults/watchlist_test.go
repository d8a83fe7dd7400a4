// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// testEarlyEnd ends each WatchList between client and server after some bytes, before the bookmark that completes the
// state. Lists and plain watches work.
func testEarlyEnd(t *testing.T, cluster *e2e.Cluster, how string, bytes int64) {
	fault := "WatchList ended " + how
	config := cluster.ThroughProxy(cluster.Admin())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && request.URL.Query().Has("sendInitialEvents") {
				response.Body = limited{io.LimitReader(response.Body, bytes), response.Body}
			}
			return response, err
		})
	})
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	names := r.prepare(many)
	want := r.onServer()
	began := time.Now()
	r.reference(names...)
	r.eventually(func() error { return r.allAgree(names, want) })
	r.observe(fault, "served by list", r.requests.rate(time.Since(began)), time.Since(began))
	r.converged(names)
	changed := r.change(names)
	took := r.converged(names)
	r.observe(fault, "newest state of all is served", changed, took)
}

// limited reads a part of a body.
type limited struct {
	io.Reader
	io.Closer
}

// testListAllowed: RBAC allows list and forbids watch. The listed state is served.
func testListAllowed(t *testing.T, cluster *e2e.Cluster) {
	const (
		fault   = "watch forbidden, list allowed"
		account = "lister"
	)
	config, err := cluster.ServiceAccount(t.Context(), metav1.NamespaceDefault, account)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, cluster, shared, cluster.ThroughProxy(config), objectcache.WatchOptions{})
	names := r.prepare(many)
	r.grant(account, names, func(role *rbacv1.Role) { role.Rules[0].Verbs = []string{"list"} })
	want := r.onServer()
	began := time.Now()
	r.reference(names...)
	r.eventually(func() error { return r.allAgree(names, want) })
	r.observe(fault, "served by list", r.requests.rate(time.Since(began)), time.Since(began))
}
