// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// A page of a list that was not asked for in pages is not the state, and the
// others are not asked for: a Role with resourceNames is for one request.
func TestPageIsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{onWatch: streams(opens())}
		source.onList = func(metav1.ListOptions) (runtime.Object, error) {
			page := list("7")
			page.Continue = "more"
			return page, nil
		}
		r := start(t, listOnly{source}, reflector.Options{})
		after(time.Minute)
		if got := r.Status(); got.Synced || failure.Of(got.LastError) != failure.Malformed {
			t.Errorf("status: got %+v, want it malformed", got)
		}
		if got := len(source.seen()); got > 15 {
			t.Errorf("requests in a minute: got %d, want those of the back-off", got)
		}
	})
}

// manyItems is a source of a list whose first item tells when it is freed.
type manyItems struct{ freed chan struct{} }

func (manyItems) IsWatchListSemanticsUnSupported() bool { return true }

func (m manyItems) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	all := list("9", *secret("5"), *secret("6"))
	all.Items[0].Name = "other"
	// The items lie in one piece of memory: only all of it can be freed.
	goruntime.AddCleanup(&all.Items[0], func(freed chan struct{}) { close(freed) }, m.freed)
	return all, nil
}

func (manyItems) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	stream := newStream()
	stream.ctx = ctx
	return stream, nil
}

// One object that is kept does not keep the list that it came with.
func TestListIsNotKept(t *testing.T) {
	source := manyItems{make(chan struct{})}
	synctest.Test(t, func(t *testing.T) {
		store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
		r := reflector.New(source, store, reflector.Options{ClientGoReflector: clientGo})
		done := make(chan struct{})
		go func() { defer close(done); r.Run(t.Context()) }()
		synctest.Wait()
		collect(t, source.freed)
		if got := len(store.ListKeys()); got != 2 {
			t.Errorf("objects: got %d, want both still there", got)
		}
		r.Stop()
		<-done
	})
}

// Who has switched WatchList off for all of client-go has done so for us.
func TestWatchListClientGateIsHonoured(t *testing.T) {
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, on)
			synctest.Test(t, func(t *testing.T) {
				source := withoutWatchList(opens(state(secret("5"), "7")...))
				r := start(t, source, reflector.Options{})
				if got := asked(source); !r.Status().Synced || (got == 1) != on {
					t.Errorf("WatchLists: got %d, want one with the gate on and none with it off", got)
				}
			})
		})
	}
}

// An object without a version cannot be followed, and the error says why that
// may be.
func TestObjectsWithoutVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, source := range map[string]listwatch.Source{
			"list":  listOnly{&fakeSource{onList: func(metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("")), nil }}},
			"watch": &fakeSource{onWatch: streams(opens(state(secret(""), "7")...))},
		} {
			r := start(t, source, reflector.Options{})
			if err := r.Status().LastError; err == nil || !strings.Contains(err.Error(), "fake clientset") {
				t.Errorf("%s: got %v, want an error that says where such objects come from", name, err)
			}
			r.stop()
		}
	})
}
