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
	// unserved is how many of many references are to objects that the server does not serve.
	unserved = many / 10
	// batch is how many new references are added at the same time. The slowest is recorded.
	batch = 5
	// countTime is how long requests for unserved objects are counted.
	countTime = 10 * time.Second
)

// testForbidden: RBAC forbids some objects. One of them is granted at the end.
func testForbidden(t *testing.T, cluster *e2e.Cluster) {
	const (
		fault   = "100 objects forbidden"
		account = "reader"
	)
	config, err := cluster.ServiceAccount(t.Context(), metav1.NamespaceDefault, account)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, cluster, shared, cluster.ThroughProxy(config), objectcache.WatchOptions{})
	names := r.prepare(many)
	r.grant(account, append(addedNames(fault), names[unserved:]...))
	stop := r.checkOthers(fault, names, r.onServer())

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
	r.observe(fault, "one is served once it is granted, while Gets request all of them", "the object", time.Since(granted))
	stop()
}

// testThrottled: requests for some objects are answered with 429 and a long Retry-After.
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

// testHanging: requests for some objects are not answered.
func testHanging(t *testing.T, cluster *e2e.Cluster) {
	testAnswered(t, cluster, "100 objects hanging", func(request *http.Request) (*http.Response, error) {
		<-request.Context().Done()
		return nil, request.Context().Err()
	})
}

func testAnswered(t *testing.T, cluster *e2e.Cluster, fault string, answer roundTripper) {
	config := cluster.ThroughProxy(cluster.Admin())
	var intercepted sets.Set[string]
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			_, name, _ := strings.Cut(request.URL.Query().Get("fieldSelector"), metav1.ObjectNameField+"=")
			if intercepted.Has(name) {
				return answer(request)
			}
			return next.RoundTrip(request)
		})
	})
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	names := r.prepare(many)
	intercepted = sets.New(names[:unserved]...) // before the first request
	r.checkOthers(fault, names, r.onServer())()
}

// The server cannot decode some objects, as if their encryption key were lost, and answers 500 for each. With a watch
// cache all Secrets would be affected.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	cluster := e2e.New(t, e2e.Options{APIServerArgs: []string{"--watch-cache-sizes=secrets#0"}})
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.prepare(many)
	want := r.onServer()
	r.each(names[:unserved], func(ctx context.Context, name string) error {
		return cluster.Corrupt(ctx, "secrets", r.namespace, name)
	})
	// The reason is InternalError, and since Kubernetes 1.37 StorageReadError.
	if err := r.listed(names[0]); !apierrors.IsInternalError(err) && !apierrors.IsStoreReadError(err) {
		t.Fatalf("corrupted object: got error %v, want 500", err)
	}
	if err := r.listed(names[unserved]); err != nil {
		t.Fatalf("another object: got error %v, want none", err)
	}
	r.checkOthers("100 objects unreadable", names, want)()
}

// listed returns the error of a list by name, which is what a store sends.
func (r *rig) listed(name string) error {
	_, err := r.admin.CoreV1().Secrets(r.namespace).List(r.Context(), metav1.ListOptions{
		FieldSelector: metav1.ObjectNameField + "=" + name,
	})
	return err
}

// checkOthers references all names, of which the first are unserved, and checks that the others are not affected. stop
// ends the callers that Get the unserved ones.
func (r *rig) checkOthers(fault string, names []string, want map[string]*corev1.Secret) (stop func()) {
	r.Helper()
	healthy := names[unserved:]
	began := time.Now()
	r.reference(names...)
	r.eventually(func() error { return errors.Join(r.allAgree(healthy, want), r.watching(healthy)) })
	r.observe(fault, "the others are served", "all 900", time.Since(began))
	added := addedNames(fault)
	r.addObjects(fault, "", added[:2*batch])

	stop = r.startCallers(names[:unserved])
	r.requests.reset()
	r.during(pause(countTime), func() error { return r.allAgree(healthy, want) })
	r.observe(fault, "requests while Gets request all of them", r.requests.rate(countTime), countTime)
	r.addObjects(fault, ", while Gets request all of them", added[2*batch:])

	cut := time.Now()
	r.cluster.Proxy.Cut()
	r.eventually(func() error { return r.contacted(healthy, cut) })
	r.observe(fault, "streams are open again after a cut, while Gets request all of them", "all 900", time.Since(cut))
	r.eventually(func() error { return streams(r.Context(), r.cluster, len(healthy)+len(added)) })
	return stop
}

// addedNames returns the names of the objects that checkOthers creates.
func addedNames(fault string) (names []string) {
	for i := range 4 * batch {
		names = append(names, fmt.Sprintf("%s-%d", strings.ReplaceAll(fault, " ", "-"), i))
	}
	return names
}

// addObjects creates and references objects, and records when the last one is served. A Get waits for half of them.
func (r *rig) addObjects(fault, when string, names []string) {
	r.Helper()
	r.each(names, func(ctx context.Context, name string) error { return r.tryPut(ctx, name, "first") })
	waited, unwaited := names[:batch], names[batch:]
	began := time.Now()
	r.reference(unwaited...)
	r.eventually(func() error { return r.watching(unwaited) })
	r.observe(fault, "new objects that no Get waits for"+when, fmt.Sprintf("the slowest of %d", batch), time.Since(began))
	r.reference(waited...)
	took := make(chan time.Duration, len(waited))
	for _, name := range waited {
		go func() { took <- r.served(name) }()
	}
	slowest := time.Duration(0)
	for range waited {
		slowest = max(slowest, <-took)
	}
	r.observe(fault, "new objects that a Get waits for"+when, fmt.Sprintf("the slowest of %d", batch), slowest)
}

// contacted returns nil if for each name the server has answered since a time and the stream is open.
func (r *rig) contacted(names []string, since time.Time) error {
	return errors.Join(r.watching(names), r.all(names, func(s objectcache.Status) error {
		if !s.LastContact.After(since) {
			return fmt.Errorf("got the last contact at %v, want one after %v", s.LastContact, since)
		}
		return nil
	}))
}
