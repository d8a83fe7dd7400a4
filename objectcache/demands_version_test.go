// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A read shows that an object without a stream has not changed up to a version. A Get that demands the version has it,
// although the object is read again at once for a new owner.
func TestGetNotOlderThanWithANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("fixed", immutable)
		r.AddReference(namespace, "fixed", "pod-1")
		r.mustGet("fixed")
		version := r.create("other").ResourceVersion
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "list" {
				time.Sleep(time.Second)
			}
			return nil
		})
		owner := time.AfterFunc(500*time.Millisecond, func() { r.AddReference(namespace, "fixed", "pod-2") })
		defer owner.Stop()
		if _, err := r.demand("fixed", objectcache.GetOptions{NotOlderThan: version}); err != nil {
			t.Errorf("got %v, want the object, as it was read", err)
		}
		r.server.Intercept(nil)
	})
}

// A watch of a shared stream that was replaced gets no more events. So the version of the shared stream says nothing
// about its state.
func TestGetNotOlderThanOfAReplacedSharedWatch(t *testing.T) {
	inSharedBubble(t, sharedOptions(3), func(t *testing.T, r *sharedRig) {
		r.createAll(names(4)...)
		r.reference(names(4)...)
		time.Sleep(joined)
		r.wantStreams("joined", 1, 0)
		last, err := strconv.Atoi(r.update("s0", "1").ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		store := r.Store.(*objectcache.WatchStore[*corev1.Secret])
		key := types.NamespacedName{Namespace: namespace, Name: "s0"}
		state, ok, err := objectcache.CheckReplaced(store, key, strconv.Itoa(last+1), func() {
			r.update("s0", "2")
			synctest.Wait()
		})
		if err != nil || ok && string(state.Object.Data["password"]) != "2" {
			t.Errorf("got password %s, ok %v, error %v, want 2, or ok false", state.Object.Data["password"], ok, err)
		}
	})
}
