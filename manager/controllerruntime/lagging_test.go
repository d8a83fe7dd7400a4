// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// lagOf makes the watches that match send nothing until the returned function is called.
func (r *rig) lagOf(match func(apiserver.Request) bool) (catchUp func()) {
	released := make(chan struct{})
	r.server.Rewrite(apiserver.Rewriter{Event: func(ctx context.Context, request apiserver.Request, event watch.Event) []watch.Event {
		if request.Resource == "secrets" && match(request) {
			select {
			case <-ctx.Done():
			case <-released:
			}
		}
		return []watch.Event{event}
	}})
	return func() { close(released); synctest.Wait() }
}

func ofSet(request apiserver.Request) bool { return request.Name == "" }

// A client reads its own writes of a kind that it has listed and not got before.
func TestSelectedIsWrittenAfterAList(t *testing.T) {
	inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		if err := c.List(t.Context(), &corev1.SecretList{}); err != nil {
			t.Fatal(err)
		}
		catchUp := r.lagOf(ofSet)
		if err := c.Update(t.Context(), secretNamed("one", "2")); err != nil {
			t.Fatal(err)
		}
		if got := r.value(c, "one"); got != "2" {
			t.Errorf("after the write: got %q", got)
		}
		catchUp()
	})
}

// A stream by name does not end while the set has an older state.
func TestSelectedSetLagsForLongerThanIdleTimeout(t *testing.T) {
	for _, informer := range []bool{false, true} {
		t.Run(fmt.Sprint(informer), func(t *testing.T) {
			inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
				r.create("one", "1")
				c := r.consistent()
				_ = r.value(c, "one")
				if informer {
					r.record(&corev1.Secret{})
				}
				time.Sleep(time.Hour)
				released := make(chan struct{})
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Resource == "secrets" && request.Name == "" && (request.Verb == "list" || request.Verb == "watch") {
						select {
						case <-ctx.Done():
						case <-released:
						}
					}
					return nil
				})
				r.server.CloseStreams(nil)
				if err := c.Update(t.Context(), secretNamed("one", "2")); err != nil {
					t.Fatal(err)
				}
				if got := r.value(c, "one"); got != "2" {
					t.Errorf("got %q", got)
				}
				time.Sleep(2 * time.Hour)
				r.wantValue("one", "2")
				close(released)
			})
		})
	}
}

// Without a SyncTimeout, a Get that waits for discovery ends with its context.
func TestDiscoveryWithoutSyncTimeout(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{SyncTimeout: -1, For: []client.Object{unstructuredWidget()}}, crcache.Options{}, func(t *testing.T, r *rig) {
		released := make(chan struct{})
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Resource == "" {
				select {
				case <-ctx.Done():
				case <-released:
				}
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(time.Minute, func() { close(released) })
		began := time.Now()
		err := r.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "w"}, unstructuredWidget())
		if time.Since(began) > 2*time.Second {
			t.Errorf("took %v: %v", time.Since(began), err)
		}
		time.Sleep(2 * time.Minute)
	})
}

// The metadata of before a restore costs one read of each object, and fails no Get.
func TestStockMetadataOfBeforeARestore(t *testing.T) {
	inBubble(t, stockMetadata, drained(crcache.Options{}), func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.record(secretMetadata())
		r.wantValue("one", "1")
		backup := r.server.Snapshot()
		for i := range 5 {
			r.update("one", fmt.Sprint(i+2))
		}
		r.create("later", "1")
		_ = r.value(r.cache, "later")
		r.server.Restore(backup)
		time.Sleep(time.Minute)
		before := len(secretRequests(r.server))
		for range 20 {
			r.wantValue("one", "1")
			if got := r.value(r.cache, "later"); got != "absent" {
				t.Errorf("later: %q", got)
			}
			time.Sleep(time.Second)
		}
		if requests := secretRequests(r.server)[before:]; len(requests) > 2 {
			t.Errorf("20 Gets after the restore: got requests %q, want one of each object", requests)
		}
	})
}

func unstructuredWidget() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	return u
}
