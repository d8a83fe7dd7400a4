// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	compbasemetrics "k8s.io/component-base/metrics"

	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

const namespace = "default"

// rig is a store of Secrets, a server and a registry in one synctest bubble.
type rig struct {
	objectcache.Store[*corev1.Secret]

	t        *testing.T
	server   *apiserver.Server
	client   kubernetes.Interface
	registry *prometheus.Registry
}

// inBubble runs f with a store that is running.
func inBubble(t *testing.T, options objectcache.StoreOptions, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		client := server.Client()
		store, err := objectcache.NewStore(resource.Secrets(client), options)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, Store: store, server: server, client: client, registry: prometheus.NewPedanticRegistry()}
		r.registry.MustRegister(newCollector(t, map[string]metrics.Store{"test": store}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- store.Run(ctx) }()
		f(r)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}

func newCollector(t testing.TB, stores map[string]metrics.Store) *metrics.Collector {
	t.Helper()
	collector, err := metrics.NewCollector(stores)
	if err != nil {
		t.Fatal(err)
	}
	return collector
}

// refer adds references to new Secrets.
func (r *rig) refer(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.write(name, "one")
		r.AddReference(namespace, name, "pod")
	}
	synctest.Wait()
}

// write creates or updates a Secret.
func (r *rig) write(name, value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{"password": value}}
	secrets := r.client.CoreV1().Secrets(namespace)
	if _, err := secrets.Update(r.t.Context(), secret, metav1.UpdateOptions{}); err == nil {
		return
	}
	if _, err := secrets.Create(r.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// get calls Get with a time-out.
func (r *rig) get(name string) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	_, _ = r.Get(ctx, namespace, name)
}

// refuse makes the server answer every list and watch with err, until the next call.
func (r *rig) refuse(err *metav1.Status) {
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		switch request.Verb {
		case "watch", "list", "get":
			return err
		}
		return nil
	})
}

// want checks values. The keys are series without the labels that all have, such as
// `objects{phase="Ready"}`. The value "" means that there is no such series.
func (r *rig) want(when string, values map[string]string) {
	r.t.Helper()
	synctest.Wait()
	got := series(scrape(r.t, r.registry))
	for name, want := range values {
		if got[name] != want {
			r.t.Errorf("%s: %s: got %q, want %s", when, name, got[name], want)
		}
	}
}

// ago returns the value of a timestamp of that time ago.
func ago(d time.Duration) string {
	return strconv.FormatFloat(float64(time.Now().Add(-d).UnixNano())/1e9, 'g', -1, 64)
}

// scrape returns the text that a server of metrics answers with.
func scrape(t testing.TB, gatherer compbasemetrics.Gatherer) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler := compbasemetrics.HandlerFor(gatherer, compbasemetrics.HandlerOpts{ErrorHandling: compbasemetrics.HTTPErrorOnError})
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if recorder.Code != http.StatusOK {
		t.Fatalf("scrape: got status %d, %s", recorder.Code, recorder.Body)
	}
	return recorder.Body.String()
}

var (
	sample = regexp.MustCompile(`(?m)^refwatch_(\w+)\{(.*)\} (\S+)$`)
	label  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// series returns the values in a text, by name. Labels that all series of a rig have are
// left out.
func series(text string) map[string]string {
	values := map[string]string{}
	for _, match := range sample.FindAllStringSubmatch(text, -1) {
		labels := slices.DeleteFunc(label.FindAllString(match[2], -1), func(label string) bool {
			return strings.HasPrefix(label, "store=") || strings.HasPrefix(label, "gate=") || strings.HasPrefix(label, "resource=")
		})
		name := match[1]
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		values[name] = match[3]
	}
	return values
}

// fakeStore returns fixed numbers.
type fakeStore struct {
	stats    objectcache.Stats
	statuses []objectcache.Status
}

func (s fakeStore) Stats() objectcache.Stats               { return s.stats }
func (s fakeStore) Statuses() iter.Seq[objectcache.Status] { return slices.Values(s.statuses) }
