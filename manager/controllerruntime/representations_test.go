// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A Get returns no state from before an event that a handler has had, though the handler is one of another
// representation, whose stream is ahead.
func TestGetAfterEventOfOtherRepresentation(t *testing.T) {
	ofMetadata := func(request apiserver.Request) bool { return strings.Contains(request.Accept, "PartialObject") }
	typed := func(request apiserver.Request) bool { return !ofMetadata(request) }
	setAndMetadata := controllerruntime.CacheOptions{StockMetadata: true, Selected: selectedSecrets.Selected}
	for name, test := range map[string]struct {
		options      controllerruntime.CacheOptions
		stock        crcache.Options
		handled, got client.Object
		muted        func(apiserver.Request) bool
	}{
		"typed Get, events of metadata": {handled: secretMetadata(), got: &corev1.Secret{}, muted: typed},
		"Get of metadata, typed events": {handled: &corev1.Secret{}, got: secretMetadata(), muted: ofMetadata},
		"typed Get of a set, events of metadata": {
			options: selectedSecrets, stock: selections["label"], handled: secretMetadata(), got: &corev1.Secret{}, muted: typed,
		},
		"Get of metadata of a set, typed events": {
			options: selectedSecrets, stock: selections["label"], handled: &corev1.Secret{}, got: secretMetadata(), muted: ofMetadata,
		},
		"typed Get, events of stock metadata": {options: stockMetadata, handled: secretMetadata(), got: &corev1.Secret{}, muted: typed},
		"typed Get of a set, events of stock metadata": {
			options: setAndMetadata, stock: selections["label"], handled: secretMetadata(), got: &corev1.Secret{}, muted: typed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.options, drained(test.stock), func(t *testing.T, r *rig) {
				mute := r.muteWatches(test.muted)
				version := func(name string) (string, error) {
					got := test.got.DeepCopyObject().(client.Object)
					err := r.cache.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, got)
					return got.GetResourceVersion(), err
				}
				seen := r.record(test.handled)
				wantEvent := func(of string) {
					t.Helper()
					synctest.Wait()
					if !seen.any() {
						t.Errorf("%s: got no event", of)
					}
					seen.clear()
				}
				r.create("one", "0")
				if _, err := version("one"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				r.update("one", "1") // each stream brings an event, and can be muted
				synctest.Wait()
				before, err := version("one")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := version("new"); !apierrors.IsNotFound(err) {
					t.Fatalf("got %v, want NotFound", err)
				}
				wantEvent("first Get")
				mute()
				r.update("one", "2")
				wantEvent("update")
				if got, err := version("one"); err != nil || got == before {
					t.Errorf("after the event of the update: got version %s and %v, want a newer version than %s", got, err, before)
				}
				r.create("new", "1")
				wantEvent("creation")
				if _, err := version("new"); err != nil {
					t.Errorf("after the event of the creation: got %v", err)
				}
				for _, name := range []string{"one", "new"} {
					r.remove(name)
					wantEvent("deletion of " + name)
					for range 2 {
						if _, err := version(name); !apierrors.IsNotFound(err) {
							t.Errorf("after the event of the deletion of %s: got %v, want NotFound", name, err)
						}
					}
				}
			})
		})
	}
}

// Gets of an absent object whose metadata has handlers send no request each.
func TestGetsOfAnAbsentObjectWithHandlersElsewhere(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, crcache.Options{}, func(t *testing.T, r *rig) {
		r.record(secretMetadata())
		for range 10 {
			if _, err := r.get("absent"); !apierrors.IsNotFound(err) {
				t.Fatalf("got %v, want NotFound", err)
			}
		}
		if requests := secretRequests(r.server); len(requests) > 6 {
			t.Errorf("ten Gets: got %d requests, want 6 at most: %q", len(requests), requests)
		}
	})
}
