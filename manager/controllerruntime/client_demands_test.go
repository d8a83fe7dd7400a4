// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A Get that began after a deletion, and ends after the creation of a new object, does not meet what the creation
// demands.
func TestClientWritesDuringAGet(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		_ = r.value(c, "one")
		late := func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
		r.server.Rewrite(apiserver.Rewriter{Event: func(ctx context.Context, _ apiserver.Request, event watch.Event) []watch.Event {
			late(ctx)
			return []watch.Event{event}
		}, Object: func(ctx context.Context, request apiserver.Request, object runtime.Object) runtime.Object {
			if request.Verb == "list" || request.Verb == "get" {
				late(ctx)
			}
			return object
		}})
		if err := c.Delete(t.Context(), secretNamed("one", "")); err != nil {
			t.Fatal(err)
		}
		during := make(chan string)
		go func() { during <- r.value(c, "one") }()
		time.Sleep(time.Second)
		if err := c.Create(t.Context(), secretNamed("one", "2")); err != nil {
			t.Fatal(err)
		}
		if got := <-during; got != "absent" {
			t.Fatalf("the Get before the creation: got %q, want absent", got)
		}
		if got := r.value(c, "one"); got != "2" {
			t.Errorf("a Get after the creation: got %q, want 2", got)
		}
	})
}

// A write that removes the last finalizer deletes the object, though its answer has the version from before.
func TestClientRemovesTheLastFinalizer(t *testing.T) {
	for name, write := range map[string]func(*rig, client.Client, client.Object) error{
		"update": func(r *rig, c client.Client, object client.Object) error { return c.Update(r.t.Context(), object) },
		"patch": func(r *rig, c client.Client, object client.Object) error {
			patch := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"finalizers":null}}`))
			return c.Patch(r.t.Context(), object, patch)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				c := r.consistent()
				secret := secretNamed("one", "1")
				secret.Finalizers = []string{"example.com/keep"}
				if err := c.Create(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
				_ = r.value(c, "one")
				if err := c.Delete(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
					t.Fatal(err)
				}
				r.server.Lag(time.Hour) // no event of the deletion comes
				secret.Finalizers = nil
				if err := write(r, c, secret); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, r.server.CatchUp)
				if got := r.value(c, "one"); got != "absent" {
					t.Errorf("after the deletion: got %q, want absent", got)
				}
			})
		})
	}
}

// The client reads its own writes also if an index alone has made the informer of the selected objects.
func TestClientReadsItsWritesOfAnIndexedKind(t *testing.T) {
	inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
		c := r.consistent()
		none := func(client.Object) []string { return nil }
		if err := r.cache.IndexField(t.Context(), secretNamed("", ""), "none", none); err != nil {
			t.Fatal(err)
		}
		r.create("one", "1")
		r.server.Lag(time.Hour)
		if err := c.Update(t.Context(), secretNamed("one", "2")); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, r.server.CatchUp)
		if got := r.value(c, "one"); got != "2" {
			t.Errorf("after the update: got %q, want 2", got)
		}
	})
}
