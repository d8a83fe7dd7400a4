// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

func selectWeb(string) resource.Selector {
	return resource.Selector{Label: labels.SelectorFromSet(labels.Set{"app": "web"}), Field: fields.OneTermNotEqualSelector("type", "other")}
}

// A large object that a selector selects is resumed as others are, and one that it selects no longer is absent. No GET
// answers a Get: it would ignore the selector.
func TestSelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		r := rigOf(t, resource.Secrets(clientOf(t, server)).WithSelector(selectWeb), objectcache.WatchOptions{})
		defer r.stop()
		r.server, r.client = server, server.Client()
		r.create("tls", func(s *corev1.Secret) {
			s.Labels = map[string]string{"app": "web"}
			s.Data["large"] = make([]byte, 100<<10)
		})
		release := r.holdBack("list", "watch")
		r.AddReference(namespace, "tls", "pod")
		got := r.async(t.Context(), "tls")
		time.Sleep(time.Second)
		release()
		if result := <-got; result.err != nil {
			t.Fatal(result.err)
		}
		r.server.CloseStreams(nil)
		time.Sleep(time.Minute)
		r.wantPhase("resumed", "tls", servingNamed, 1)
		secret := r.mustGet("tls").DeepCopy()
		secret.Labels = nil
		if _, err := r.client.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("without the label: got %v, want NotFound", err)
		}
		for _, request := range server.Requests() {
			if request.Verb == "get" || (request.Verb == "list" || request.Verb == "watch") && !selectsWeb(request.Query) {
				t.Errorf("got %s with %q, want lists and watches with the selector", request.Verb, request.Query)
			}
		}
	})
}

// What the terms of a selector on the name and the namespace exclude is absent at once, with or without a reference,
// also if the server does not answer, and no request is sent for it. The server authorizes all other requests as the
// names that are read.
func TestSelectorOfNames(t *testing.T) {
	for name, test := range map[string]struct {
		selector string
		excluded []string
	}{
		"a name":        {"metadata.name=mine", []string{"another", "other"}},
		"not a name":    {"metadata.name!=mine", []string{"mine"}},
		"two names":     {"metadata.name=mine,metadata.name=other", []string{"another", "mine", "other"}},
		"a namespace":   {"metadata.namespace=elsewhere,type=Opaque", []string{"another", "mine", "other"}},
		"its namespace": {"metadata.namespace=default,type=Opaque", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
				selector := resource.Selector{Field: fields.ParseSelectorOrDie(test.selector)}
				secrets := resource.Secrets(clientOf(t, server)).WithSelector(func(string) resource.Selector { return selector })
				r := rigOf(t, secrets, objectcache.WatchOptions{})
				defer r.stop()
				r.server, r.client = server, server.Client()
				for _, name := range []string{"another", "mine", "other"} {
					r.create(name, func(*corev1.Secret) {})
					server.Authorize(func(request apiserver.Request) bool { return request.Name == name })
					isExcluded := slices.Contains(test.excluded, name)
					release := func() {}
					if isExcluded {
						release = r.holdBack("list", "watch", "get")
					}
					for _, referenced := range []bool{false, true} {
						if referenced {
							r.AddReference(namespace, name, "pod")
						} else if !isExcluded {
							continue
						}
						if _, err := r.get(name, time.Second); apierrors.IsNotFound(err) != isExcluded || err != nil && !isExcluded {
							t.Errorf("%s, referenced %v: got %v, want NotFound: %v", name, referenced, err, isExcluded)
						}
						if _, err := r.TryGet(namespace, name); apierrors.IsNotFound(err) != isExcluded {
							t.Errorf("TryGet %s, referenced %v: got %v, want NotFound: %v", name, referenced, err, isExcluded)
						}
					}
					status, _ := r.Status(namespace, name)
					if isAbsent := status.Synced && status.Phase == objectcache.PhaseAbsent && status.Reason == objectcache.ReasonNotSelected; isAbsent != isExcluded {
						t.Errorf("%s: got %+v, want it absent and synced, because it is not selected: %v", name, status, isExcluded)
					}
					asked := slices.ContainsFunc(server.Requests(), func(request apiserver.Request) bool { return request.Name == name && request.Verb != "create" })
					if asked == isExcluded {
						t.Errorf("%s: got requests: %v, want %v", name, asked, !isExcluded)
					}
					release()
					server.Authorize(nil)
				}
			})
		})
	}
}

// Get asks no selector for a referenced object that the server does not have. No lock is held
// while the function of a selector runs, also for Changes.
func TestSelectorIsNotAskedForGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		var r *rig
		asked := 0
		selector := resource.Selector{Field: fields.OneTermNotEqualSelector("metadata.name", "excluded")}
		secrets := resource.Secrets(clientOf(t, server)).WithSelector(func(string) resource.Selector {
			asked++
			if r != nil {
				r.Status(namespace, "absent")
			}
			return selector
		})
		r = rigOf(t, secrets, objectcache.WatchOptions{})
		defer r.stop()
		r.AddReference(namespace, "absent", "pod")
		for range 2 {
			if _, err := r.get("absent", time.Second); !apierrors.IsNotFound(err) {
				t.Errorf("got %v, want NotFound", err)
			}
		}
		before := asked
		for range 100 {
			_, _ = r.TryGet(namespace, "absent")
		}
		if got := asked - before; got != 0 {
			t.Errorf("100 Gets of an absent object have asked the selector %d times, want none", got)
		}
		r.AddReference(namespace, "excluded", "pod")
		for change := range r.Changes(t.Context()) {
			if change.Key.Name == "excluded" {
				if !apierrors.IsNotFound(change.Err) || !strings.Contains(change.Err.Error(), "the field selector excludes it") {
					t.Errorf("got %v, want that the selector excludes it", change.Err)
				}
				break
			}
		}
	})
}

// selectsWeb reports whether a query has the selectors, and first the name: that is what kube-apiserver authorizes.
func selectsWeb(query url.Values) bool {
	return query.Get("labelSelector") == "app=web" && query.Get("fieldSelector") == "metadata.name=tls,type!=other"
}

// Stores that read with GETs, and sources that read by themselves, have no selectors.
func TestSelectorErrors(t *testing.T) {
	selected := resource.Secrets(clients.Nowhere()).WithSelector(selectWeb)
	_, ttl := objectcache.NewTTLStore(selected, objectcache.TTLOptions{})
	_, direct := objectcache.NewDirectStore(selected, objectcache.DirectOptions{})
	for name, err := range map[string]error{"TTL": ttl, "direct": direct} {
		if err == nil || !strings.Contains(err.Error(), `resource "secrets": its objects have a selector`) || !strings.Contains(err.Error(), "use a WatchStore") {
			t.Errorf("%s store: got %v, want an error that names the strategy to use", name, err)
		}
	}
	source := resource.FromSource(struct {
		resource.Source[*corev1.Secret]
	}{}, corev1.SchemeGroupVersion.WithResource("secrets"))
	if err := newError(source.WithSelector(selectWeb)); err == nil || !strings.Contains(err.Error(), "FromSource have no selector") {
		t.Errorf("FromSource: got %v, want an error", err)
	}
	if err := newError(resource.Secrets(nil).WithSelector(selectWeb)); err == nil || !strings.Contains(err.Error(), "the client is nil") {
		t.Errorf("no client: got %v, want that error", err)
	}
}
