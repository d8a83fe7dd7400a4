// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

func ofMetadata(request apiserver.Request) bool {
	return strings.Contains(request.Accept, "PartialObject")
}

// hang makes reads of Secrets that match hang until the returned function is called.
func (r *rig) hang(match func(apiserver.Request) bool) (release func()) {
	released := make(chan struct{})
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		isRead := request.Verb == "get" || request.Verb == "list" || request.Verb == "watch"
		if request.Resource == "secrets" && isRead && match(request) {
			select {
			case <-ctx.Done():
			case <-released:
			}
		}
		return nil
	})
	return func() { close(released) }
}

// A deletion that all streams have brought costs no request, and no Get waits, also if the object is created again
// soon.
func TestGetsAfterDeletionsElsewhereSendNothing(t *testing.T) {
	for name, options := range map[string]controllerruntime.CacheOptions{"StockMetadata": stockMetadata, "by reference": {}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, drained(crcache.Options{}), func(t *testing.T, r *rig) {
				r.record(secretMetadata())
				const objects = 10
				for i := range objects {
					r.create(fmt.Sprint(i), "1")
					r.wantValue(fmt.Sprint(i), "1")
				}
				time.Sleep(time.Minute)
				before, began := len(secretRequests(r.server)), time.Now()
				ended, end := context.WithCancel(t.Context())
				end()
				for i := range objects {
					name := fmt.Sprint(i)
					for range 2 {
						r.remove(name)
						synctest.Wait()
						key := keyOfOne
						key.Name = name
						if err := r.cache.Get(ended, key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
							t.Fatalf("%s: got %v, want NotFound, though the context has ended", name, err)
						}
						r.create(name, "2")
						synctest.Wait()
						r.wantValue(name, "2")
					}
				}
				if requests := len(secretRequests(r.server)) - before; requests > 0 || time.Since(began) > 0 {
					t.Errorf("after %d deletions: got %d requests in %v, want none", 2*objects, requests, time.Since(began))
				}
			})
		})
	}
}

// While the reads of one representation hang, and another one has a newer state, Gets wait for SyncTimeout once. After
// a pause in which the stream has recovered, that does not count.
func TestGetsBehindAHangingStreamWaitOnce(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, drained(crcache.Options{}), func(t *testing.T, r *rig) {
		mute := r.muteWatches(func(request apiserver.Request) bool { return !ofMetadata(request) })
		seen := r.record(secretMetadata())
		r.create("one", "1")
		r.wantValue("one", "1")
		seen.want(t, "first Get", "add one")
		mute()
		release := r.hang(func(request apiserver.Request) bool { return !ofMetadata(request) })
		seen.clear()
		r.update("one", "2")
		seen.wantLast(t, "update", "update one to one")
		began := time.Now()
		for range 10 {
			if _, err := r.get("one"); !apierrors.IsTimeout(err) {
				t.Errorf("got %v, want a timeout", err)
			}
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("ten Gets: took %v, want SyncTimeout once", took)
		}
		release()
		time.Sleep(time.Minute)
		r.hang(func(apiserver.Request) bool { return false })
		r.server.CloseStreams(func(request apiserver.Request) bool { return !ofMetadata(request) })
		r.update("one", "3")
		r.wantValue("one", "3")
	})
}

// After a restore, versions that only some sides have are demanded once each, and a version that was lost hides no
// newer one of another side.
func TestVersionsOfBeforeARestore(t *testing.T) {
	t.Run("of the set and the metadata", func(t *testing.T) {
		options := controllerruntime.CacheOptions{StockMetadata: true, Selected: selectedSecrets.Selected}
		inBubble(t, options, drained(selections["label"]), func(t *testing.T, r *rig) {
			r.record(secretMetadata())
			r.record(&corev1.Secret{})
			backup := r.server.Snapshot()
			r.create("later", "1")
			r.wantValue("later", "1")
			catchUp := r.lagOf(func(request apiserver.Request) bool { return request.Name == "" && !ofMetadata(request) })
			r.update("later", "2") // the metadata has it, and the set does not
			release := r.hang(ofSet)
			r.server.Restore(backup)
			time.Sleep(time.Minute)
			before := len(secretRequests(r.server))
			for range 50 {
				if got := r.value(r.cache, "later"); got != "absent" {
					t.Errorf("got %q, want absent", got)
				}
			}
			if requests := len(secretRequests(r.server)) - before; requests > 6 {
				t.Errorf("50 Gets after the restore: got %d requests", requests)
			}
			release()
			catchUp()
		})
	})
	t.Run("of the metadata alone", func(t *testing.T) {
		inBubble(t, controllerruntime.CacheOptions{}, drained(crcache.Options{}), func(t *testing.T, r *rig) {
			untyped := &unstructured.Unstructured{}
			untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			mute := r.muteWatches(func(request apiserver.Request) bool {
				return strings.Contains(request.Accept, "protobuf") && !ofMetadata(request)
			})
			r.create("one", "1")
			seen := r.record(untyped)
			r.record(secretMetadata())
			r.wantValue("one", "1")
			backup := r.server.Snapshot()
			for i := range 9 {
				r.update("one", fmt.Sprint(i+2))
			}
			release := r.hang(ofMetadata)
			r.server.Restore(backup)
			time.Sleep(time.Minute)
			r.wantValue("one", "1")
			mute()
			seen.clear()
			r.update("one", "after the restore")
			synctest.Wait()
			if !seen.any() {
				t.Fatal("after the restore: got no event")
			}
			r.wantValue("one", "after the restore")
			release()
		})
	})
}

// An object of the set whose metadata is late comes from the set: no stream by name is opened, and a Get does not
// depend on one.
func TestSelectedWhoseMetadataIsLate(t *testing.T) {
	options := controllerruntime.CacheOptions{StockMetadata: true, Selected: selectedSecrets.Selected}
	inBubble(t, options, drained(selections["label"]), func(t *testing.T, r *rig) {
		r.record(secretMetadata())
		r.record(&corev1.Secret{})
		catchUp := r.lagOf(func(request apiserver.Request) bool { return request.Name == "" && ofMetadata(request) })
		release := r.hang(func(request apiserver.Request) bool { return request.Name != "" })
		before, began := len(secretRequests(r.server)), time.Now()
		for i := range 10 {
			r.create(fmt.Sprint(i), "1")
			r.wantValue(fmt.Sprint(i), "1")
		}
		if requests := len(secretRequests(r.server)) - before; requests > 0 || time.Since(began) > time.Second {
			t.Errorf("got %d requests in %v, want none", requests, time.Since(began))
		}
		release()
		catchUp()
	})
}
