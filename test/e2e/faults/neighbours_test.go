// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// bad is how many of many references are to objects that the server does not serve.
	bad = many / 10
	// newcomers is how many new references come at once. The slowest of them is noted.
	newcomers = 5
	// settled is how long the requests for what is refused are counted.
	settled = 10 * time.Second
)

// testForbidden: RBAC admits all but some. One of these is admitted in the end.
func testForbidden(t *testing.T, cluster *e2e.Cluster) {
	const (
		fault   = "100 objects forbidden"
		account = "neighbour"
	)
	config, err := cluster.ServiceAccount(t.Context(), metav1.NamespaceDefault, account)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, cluster, shared, cluster.ThroughProxy(config), objectcache.WatchOptions{})
	names := r.prepare(many)
	admitted := append(newcomersOf(fault), names[bad:]...)
	r.admit(account, admitted)
	stop := r.neighbours(fault, names, r.onServer())

	role, err := r.admin.RbacV1().Roles(r.namespace).Get(r.Context(), account, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules[0].ResourceNames = append(role.Rules[0].ResourceNames, names[0])
	if _, err := r.admin.RbacV1().Roles(r.namespace).Update(r.Context(), role, updateOptions); err != nil {
		t.Fatal(err)
	}
	granted := time.Now()
	r.eventually(func() error { _, err := r.get(names[0]); return err })
	r.observe(fault, "one is served once it is granted, while Gets ask for all", "the object", time.Since(granted))
	stop()
}

// testThrottled: some objects are answered 429, with a long Retry-After.
func testThrottled(t *testing.T, cluster *e2e.Cluster) {
	testAnswered(t, cluster, "100 objects throttled", func(request *http.Request) (*http.Response, error) {
		return &http.Response{
			Status: "429 Too Many Requests", StatusCode: http.StatusTooManyRequests,
			Proto: "HTTP/2.0", ProtoMajor: 2, Request: request,
			Header: http.Header{"Retry-After": {"30"}, "Content-Type": {"text/plain"}},
			Body:   io.NopCloser(strings.NewReader("too many requests")),
		}, nil
	})
}

// testHanging: some objects are never answered.
func testHanging(t *testing.T, cluster *e2e.Cluster) {
	testAnswered(t, cluster, "100 objects hanging", func(request *http.Request) (*http.Response, error) {
		<-request.Context().Done()
		return nil, request.Context().Err()
	})
}

func testAnswered(t *testing.T, cluster *e2e.Cluster, fault string, answer roundTripper) {
	config := cluster.ThroughProxy(cluster.Admin())
	var bads sets.Set[string]
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			_, name, _ := strings.Cut(request.URL.Query().Get("fieldSelector"), metav1.ObjectNameField+"=")
			if bads.Has(name) {
				return answer(request)
			}
			return next.RoundTrip(request)
		})
	})
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	names := r.prepare(many)
	bads = sets.New(names[:bad]...) // nothing is requested before
	r.neighbours(fault, names, r.onServer())()
}

// Some objects cannot be decoded, as if encrypted with a key that is lost: 500 for each of them. A watch cache would
// make that a matter of all Secrets.
func TestUnreadable(t *testing.T) {
	cluster := e2e.New(t, e2e.Options{APIServerArgs: []string{"--watch-cache-sizes=secrets#0"}})
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.prepare(many)
	want := r.onServer()
	r.each(names[:bad], func(ctx context.Context, name string) error {
		return cluster.Corrupt(ctx, "secrets", r.namespace, name)
	})
	if err := r.listed(names[0]); !apierrors.IsInternalError(err) {
		t.Fatalf("a corrupted object: got error %v, want 500", err)
	}
	if err := r.listed(names[bad]); err != nil {
		t.Fatalf("another object: got error %v, want none", err)
	}
	r.neighbours("100 objects unreadable", names, want)()
}

// listed returns the error of a list that selects one name, as a store sends it.
func (r *rig) listed(name string) error {
	_, err := r.admin.CoreV1().Secrets(r.namespace).List(r.Context(), metav1.ListOptions{
		FieldSelector: metav1.ObjectNameField + "=" + name,
	})
	return err
}

// neighbours references all names, of which the first cannot be served, and holds the store to what it promises of the
// others. stop ends the Gets that ask for the bad ones without a pause.
func (r *rig) neighbours(fault string, names []string, want map[string]*corev1.Secret) (stop func()) {
	r.Helper()
	healthy := names[bad:]
	began := time.Now()
	r.reference(names...)
	r.eventually(func() error { return errors.Join(r.allAgree(healthy, want), r.watching(healthy)) })
	r.observe(fault, "the others are served", "all 900", time.Since(began))
	fresh := newcomersOf(fault)
	r.welcome(fault, "", fresh[:2*newcomers])

	stop = r.keepAsking(names[:bad])
	r.requests.reset()
	r.during(last(settled), func() error { return r.allAgree(healthy, want) })
	r.observe(fault, "requests while Gets ask for all of them", r.requests.rate(settled), settled)
	r.welcome(fault, ", while Gets ask for all of them", fresh[2*newcomers:])

	cut := time.Now()
	r.cluster.Proxy.Cut()
	r.eventually(func() error { return r.contacted(healthy, cut) })
	r.observe(fault, "streams are open again after a cut, while Gets ask for all of them", "all 900", time.Since(cut))
	r.eventually(func() error { return streams(r.Context(), r.cluster, len(healthy)+len(fresh)) })
	return stop
}

// newcomersOf returns the names of the objects that a test of neighbours references later.
func newcomersOf(fault string) (names []string) {
	for i := range 4 * newcomers {
		names = append(names, fmt.Sprintf("%s-%d", strings.ReplaceAll(fault, " ", "-"), i))
	}
	return names
}

// welcome creates and references objects, half of them waited for by a Get, and notes when the last was served.
func (r *rig) welcome(fault, when string, names []string) {
	r.Helper()
	r.each(names, func(ctx context.Context, name string) error { return r.tryPut(ctx, name, "first") })
	waited, unwaited := names[:newcomers], names[newcomers:]
	began := time.Now()
	r.reference(unwaited...)
	r.eventually(func() error { return r.watching(unwaited) })
	r.observe(fault, "new objects that no Get waits for"+when, fmt.Sprintf("the slowest of %d", newcomers), time.Since(began))
	r.reference(waited...)
	took := make(chan time.Duration, len(waited))
	for _, name := range waited {
		go func() { took <- r.served(name) }()
	}
	slowest := time.Duration(0)
	for range waited {
		slowest = max(slowest, <-took)
	}
	r.observe(fault, "new objects that a Get waits for"+when, fmt.Sprintf("the slowest of %d", newcomers), slowest)
}

// contacted returns nil if the server has answered for each name since then, and its stream is open.
func (r *rig) contacted(names []string, since time.Time) error {
	return errors.Join(r.watching(names), r.all(names, func(s objectcache.Status) error {
		if !s.LastContact.After(since) {
			return fmt.Errorf("got the last contact at %v, want one after %v", s.LastContact, since)
		}
		return nil
	}))
}
