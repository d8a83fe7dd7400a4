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
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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
	for name, test := range map[string]struct {
		write         func(*rig, client.Client) error
		before, after string
	}{
		"create": {func(r *rig, c client.Client) error { return c.Create(r.t.Context(), secretNamed("new", "2")) }, "absent", "2"},
		"update": {func(r *rig, c client.Client) error { return c.Update(r.t.Context(), secretNamed("one", "2")) }, "1", "2"},
		"patch": {func(r *rig, c client.Client) error {
			return c.Patch(r.t.Context(), secretNamed("one", "2"), client.Merge)
		}, "1", "2"},
		"apply": {func(r *rig, c client.Client) error {
			applied := applycorev1.Secret("one", namespace).WithData(map[string][]byte{"value": []byte("2")})
			return c.Apply(r.t.Context(), applied, client.FieldOwner("test"), client.ForceOwnership)
		}, "1", "2"},
		"delete": {func(r *rig, c client.Client) error { return c.Delete(r.t.Context(), secretNamed("one", "")) }, "1", "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				c := r.consistent()
				r.create("one", "1")
				r.create("other", "3")
				written := "one"
				if name == "create" {
					written = "new"
				}
				for _, name := range []string{written, "other"} {
					_ = r.value(c, name)
				}
				r.server.Lag(time.Hour)
				if err := test.write(r, c); err != nil {
					t.Fatal(err)
				}
				if got := r.value(r.cache, written); got != test.before {
					t.Errorf("the cache while no event comes: got %q, want %q", got, test.before)
				}
				began := time.Now()
				if got := r.value(c, "other"); got != "3" || time.Since(began) > 0 {
					t.Errorf("another object: got %q after %v, want it at once", got, time.Since(began))
				}
				time.AfterFunc(2*time.Second, r.server.CatchUp)
				if got := r.value(c, written); got != test.after {
					t.Errorf("the client: got %q after %v, want %q", got, time.Since(began), test.after)
				}
				began = time.Now()
				if got := r.value(c, written); got != test.after || time.Since(began) > 0 {
					t.Errorf("the client again: got %q after %v, want %q at once", got, time.Since(began), test.after)
				}
			})
		})
	}
}

// Dry runs and writes that were refused demand nothing. A Get whose demands are not met fails after SyncTimeout, and
// so does the next one.
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
		for range 2 {
			began = time.Now()
			if got := r.value(c, "one"); !strings.Contains(got, "CacheOptions.SyncTimeout is 5s") || time.Since(began) != 5*time.Second {
				t.Errorf("while no event comes: got %q after %v, want an error after 5 s", got, time.Since(began))
			}
		}
	})
}

// The client of a manager reads its own writes.
func TestClientOfAManager(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		mgr, err := ctrl.NewManager(server.Config(), ctrl.Options{
			NewCache:   controllerruntime.NewCache(controllerruntime.CacheOptions{}),
			NewClient:  controllerruntime.NewClient,
			Metrics:    metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer start(t, mgr)()
		r := &rig{t: t, server: server}
		if got := r.value(mgr.GetClient(), "one"); got != "absent" {
			t.Fatalf("got %q, want no Secret", got)
		}
		server.Lag(time.Hour)
		if err := mgr.GetClient().Create(t.Context(), secretNamed("one", "1")); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, server.CatchUp)
		if got := r.value(mgr.GetClient(), "one"); got != "1" {
			t.Errorf("got %q, want the Secret that the client has created", got)
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

// Writes of a subresource count: they change the version of the object.
func TestClientReadsItsStatus(t *testing.T) {
	for name, write := range map[string]func(context.Context, client.Client, *unstructured.Unstructured) error{
		"update": func(ctx context.Context, c client.Client, gadget *unstructured.Unstructured) error {
			return c.Status().Update(ctx, gadget)
		},
		"patch": func(ctx context.Context, c client.Client, gadget *unstructured.Unstructured) error {
			return c.SubResource("status").Patch(ctx, gadget, client.Merge)
		},
		"body": func(ctx context.Context, c client.Client, gadget *unstructured.Unstructured) error {
			return c.Status().Update(ctx, gadget.DeepCopy(), client.WithSubResourceBody(gadget))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, c, gadget := newGadget(t)
				read := gadget.DeepCopy()
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(gadget), read); err != nil {
					t.Fatal(err)
				}
				server.Lag(time.Hour)
				gadget.Object["status"] = map[string]any{"phase": "Ready"}
				if err := write(t.Context(), c, gadget); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, server.CatchUp)
				err := c.Get(t.Context(), client.ObjectKeyFromObject(gadget), read)
				if phase, _, _ := unstructured.NestedString(read.Object, "status", "phase"); err != nil || phase != "Ready" {
					t.Errorf("got phase %q and %v, want Ready", phase, err)
				}
			})
		})
	}
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
