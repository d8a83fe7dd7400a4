// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// consistent returns a client that reads its own writes.
func (r *rig) consistent() client.Client {
	r.t.Helper()
	c, err := controllerruntime.NewClient(r.server.Config(), client.Options{Cache: &client.CacheOptions{Reader: r.cache}})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// value returns the value of a Secret: "absent" if there is none, or an error.
func (r *rig) value(reader client.Reader, name string) string {
	secret := &corev1.Secret{}
	err := reader.Get(r.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return "absent"
	case err != nil:
		return err.Error()
	}
	return string(secret.Data["value"])
}

// While no event comes, a Get waits for what the client has written to the same object, and no other Get waits.
func TestClientReadsItsWrites(t *testing.T) {
	for verb, test := range writesOfSecrets {
		t.Run(verb, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				c := r.consistent()
				r.create("other", "3")
				if !test.creates {
					r.create("one", "1")
				}
				before := r.value(c, "one")
				_ = r.value(c, "other")
				r.server.Lag(time.Hour)
				if err := test.write(t.Context(), c, "one"); err != nil {
					t.Fatal(err)
				}
				if got := r.value(r.cache, "one"); got != before {
					t.Errorf("the cache while no event comes: got %q, want %q", got, before)
				}
				began := time.Now()
				if got := r.value(c, "other"); got != "3" || time.Since(began) > 0 {
					t.Errorf("another object: got %q after %v, want it at once", got, time.Since(began))
				}
				time.AfterFunc(2*time.Second, r.server.CatchUp)
				for _, at := range []string{"first", "again"} {
					if got := r.value(c, "one"); got != test.after || at == "again" && time.Since(began) > 2*time.Second {
						t.Errorf("the client %s: got %q after %v, want %q", at, got, time.Since(began), test.after)
					}
				}
			})
		})
	}
}

// Dry runs and writes that were refused demand nothing. A Get whose demands neither an event nor a list meets fails
// after SyncTimeout, and so does the next one.
func TestClientDemands(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		_ = r.value(c, "one")
		r.server.Lag(time.Hour)
		if err := errors.Join(c.Update(t.Context(), secretNamed("one", "2"), client.DryRunAll),
			c.Delete(t.Context(), secretNamed("one", ""), client.DryRunAll)); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), secretNamed("one", "2")); !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		began := time.Now()
		if got := r.value(c, "one"); got != "1" || time.Since(began) > 0 {
			t.Errorf("after a dry run and a refusal: got %q after %v, want 1 at once", got, time.Since(began))
		}
		if err := c.Update(t.Context(), secretNamed("one", "3")); err != nil {
			t.Fatal(err)
		}
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "list" { // it would answer, however far events lag
				<-ctx.Done()
			}
			return nil
		})
		for range 2 {
			began = time.Now()
			if got := r.value(c, "one"); !strings.Contains(got, "CacheOptions.SyncTimeout is 5s") || time.Since(began) != 5*time.Second {
				t.Errorf("while no event comes and lists hang: got %q after %v, want an error after 5 s", got, time.Since(began))
			}
		}
	})
}

// A server that was restored from a backup has lost the write. Get then returns what the server has.
func TestClientWhoseWriteIsLost(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		_ = r.value(c, "one")
		backup := r.server.Snapshot()
		r.server.Lag(time.Hour) // no event of the write comes
		if err := c.Update(t.Context(), secretNamed("one", "2")); err != nil {
			t.Fatal(err)
		}
		r.server.Restore(backup)
		r.server.CatchUp()
		for range 2 {
			if got := r.value(c, "one"); got != "1" {
				t.Errorf("after the restore: got %q, want 1", got)
			}
		}
	})
}

// Each representation has a state of its own: a Get of one does not meet the demand of another.
func TestClientDemandsOfEachRepresentation(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		key := client.ObjectKey{Namespace: namespace, Name: "one"}
		_ = r.value(c, "one")
		if err := c.Get(t.Context(), key, metadata); err != nil {
			t.Fatal(err)
		}
		r.server.CloseStreams(nil)
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status { // streams of metadata open late
			if strings.Contains(request.Accept, "PartialObjectMetadata") {
				time.Sleep(2 * time.Second)
			}
			return nil
		})
		written := secretNamed("one", "2")
		if err := c.Update(t.Context(), written); err != nil {
			t.Fatal(err)
		}
		if got := r.value(c, "one"); got != "2" {
			t.Errorf("typed: got %q, want 2", got)
		}
		if err := c.Get(t.Context(), key, metadata); err != nil || metadata.ResourceVersion != written.ResourceVersion {
			t.Errorf("metadata: got version %s and %v, want %s", metadata.ResourceVersion, err, written.ResourceVersion)
		}
	})
}

// NewClient returns an error for a cache that is not one of NewCache.
func TestNewClientErrors(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		for _, options := range []client.Options{{}, {Cache: &client.CacheOptions{}}} {
			if _, err := controllerruntime.NewClient(r.server.Config(), options); err == nil || !strings.Contains(err.Error(), "set ctrl.Options.NewCache") {
				t.Errorf("got %v, want an error that says what to set", err)
			}
		}
		if _, err := controllerruntime.NewClient(nil, client.Options{Cache: &client.CacheOptions{Reader: r.cache}}); err == nil {
			t.Error("a nil config: got no error")
		}
		disabled := client.CacheOptions{Reader: r.cache, DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}}}
		if _, err := controllerruntime.NewClient(r.server.Config(), client.Options{Cache: &disabled}); err == nil || !strings.Contains(err.Error(), "DisableFor has Secret") {
			t.Errorf("got %v, want an error that names DisableFor", err)
		}
	})
}

// newGadget returns a client that reads its own writes of Gadgets, which have a status, and a Gadget that it has
// created.
func newGadget(t *testing.T) (*apiserver.Server, client.Client, *unstructured.Unstructured) {
	t.Helper()
	gadgets := apiserver.CustomResource{Group: "example.com", Version: "v1", Resource: "gadgets", Kind: "Gadget", StatusSubresource: true}
	server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true, CustomResources: []apiserver.CustomResource{gadgets}})
	gadget := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": namespace, "name": "one"}}}
	gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
	made, err := controllerruntime.NewCache(controllerruntime.CacheOptions{For: []client.Object{gadget}})(server.Config(), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(start(t, made))
	c, err := controllerruntime.NewClient(server.Config(), client.Options{Cache: &client.CacheOptions{Reader: made, Unstructured: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), gadget); err != nil {
		t.Fatal(err)
	}
	return server, c, gadget
}

// controller-runtime's EnableReadYourWritesConsistency, of v0.25, waits for events that a cache of referenced
// objects does not have. NewClient serves its kinds itself and leaves the others to the option. Without NewClient, a
// call of the kind returns an error that says what to do, instead of waiting for ever.
func TestConsistencyOption(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		options := client.CacheOptions{Reader: r.cache}
		field := reflect.ValueOf(&options).Elem().FieldByName("EnableReadYourWritesConsistency")
		if !field.IsValid() {
			t.Skip("controller-runtime has no such option before v0.25")
		}
		field.Set(reflect.ValueOf(new(true)))
		stock, err1 := client.New(r.server.Config(), client.Options{Cache: &options})
		ours, err2 := controllerruntime.NewClient(r.server.Config(), client.Options{Cache: &options})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if err := stock.Create(t.Context(), secretNamed("one", "1")); err == nil || !strings.Contains(err.Error(), "set ctrl.Options.NewClient to controllerruntime.NewClient") {
			t.Errorf("without NewClient: got %v, want an error that names NewClient", err)
		}
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}}
		for _, object := range []client.Object{secretNamed("one", "1"), settings} {
			if err := ours.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if err := ours.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Errorf("a Get of a %T after its creation: %v", object, err)
			}
		}
		if got := r.value(ours, "one"); got != "1" {
			t.Errorf("got %q, want 1", got)
		}
	})
}

// An update that returns after a later deletion does not undo what the deletion demands.
func TestClientDeletesBeforeAnUpdateReturns(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		_ = r.value(c, "one")
		r.server.Rewrite(apiserver.Rewriter{Object: func(ctx context.Context, request apiserver.Request, object runtime.Object) runtime.Object {
			if request.Verb == "update" {
				time.Sleep(time.Second)
			}
			return object
		}, Event: func(ctx context.Context, request apiserver.Request, event watch.Event) []watch.Event {
			if event.Type == watch.Deleted {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
			}
			return []watch.Event{event}
		}})
		done := make(chan error)
		go func() { done <- c.Update(t.Context(), secretNamed("one", "2")) }()
		time.Sleep(500 * time.Millisecond)
		if err := c.Delete(t.Context(), secretNamed("one", "")); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := r.value(c, "one"); got != "absent" {
			t.Errorf("after the deletion: got %q", got)
		}
	})
}

// A Get of a kind without namespaces may name one, as in the stock cache.
func TestClientOfClusterScopedKind(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{For: []client.Object{&corev1.Namespace{}}}, cache.Options{}, func(t *testing.T, r *rig) {
		c := r.consistent()
		key := client.ObjectKey{Namespace: "some", Name: "other"}
		other := &corev1.Namespace{}
		if err := c.Get(t.Context(), key, other); err != nil {
			t.Fatal(err)
		}
		r.server.Lag(time.Hour)
		other.Labels = map[string]string{"a": "b"}
		if err := c.Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, r.server.CatchUp)
		read := &corev1.Namespace{}
		if err := c.Get(t.Context(), key, read); err != nil || read.Labels["a"] != "b" {
			t.Errorf("got %v and %v", read.Labels, err)
		}
	})
}

// A Get after a deletion whose event has arrived reads nothing from the server. While the event is not there, or the
// object was not held before, it does.
func TestClientKnowsOfItsDeletion(t *testing.T) {
	representations := map[string]func() client.Object{
		"typed": func() client.Object { return &corev1.Secret{} },
		"metadata": func() client.Object {
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			return object
		},
	}
	for name, newObject := range representations {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				c := r.consistent()
				key := client.ObjectKey{Namespace: namespace, Name: "one"}
				named := newObject()
				named.SetNamespace(namespace)
				named.SetName("one")
				reads := func() (n int) {
					for _, request := range r.server.Requests() {
						if request.Verb == "list" || request.Verb == "watch" || request.Verb == "get" {
							n++
						}
					}
					return n
				}
				r.create("one", "1")
				if err := c.Get(t.Context(), key, newObject()); err != nil {
					t.Fatal(err)
				}
				if err := c.Delete(t.Context(), named); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the event arrives
				before, began := reads(), time.Now()
				if err := c.Get(t.Context(), key, newObject()); !apierrors.IsNotFound(err) || reads() != before || time.Since(began) > 0 {
					t.Errorf("after the event: got %v, %d reads and %v, want NotFound at once", err, reads()-before, time.Since(began))
				}

				r.create("one", "2")
				synctest.Wait()
				r.server.Lag(time.Minute)
				if err := c.Delete(t.Context(), named); err != nil {
					t.Fatal(err)
				}
				before = reads()
				time.AfterFunc(time.Second, r.server.CatchUp)
				if err := c.Get(t.Context(), key, newObject()); !apierrors.IsNotFound(err) || reads() == before {
					t.Errorf("without the event: got %v and %d reads, want NotFound from the server", err, reads()-before)
				}
			})
		})
	}
}
