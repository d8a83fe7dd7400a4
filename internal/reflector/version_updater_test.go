// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

// versionedSlot records the versions that it gets, with that of the object it then holds.
type versionedSlot struct {
	*storetest.Slot[*corev1.Secret]

	mu       sync.Mutex
	versions []string
}

var _ toolscache.ResourceVersionUpdater = (*versionedSlot)(nil)

func (s *versionedSlot) UpdateResourceVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, version+" "+s.Load().ResourceVersion)
}

// resumable is a source of a large object that is the one delivered last.
type resumable struct{ *fakeSource }

func (resumable) IsLarge() bool { return true }

func (r resumable) Peek(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return r.List(ctx, options)
}

func (resumable) Compare(context.Context, metav1.ListOptions) (runtime.Object, bool, error) {
	held := metav1.PartialObjectMetadata{ObjectMeta: secret("8").ObjectMeta}
	return &metav1.PartialObjectMetadataList{
		ListMeta: metav1.ListMeta{ResourceVersion: "12"}, Items: []metav1.PartialObjectMetadata{held},
	}, true, nil
}

// A store that is a ResourceVersionUpdater gets the version of each state, event and bookmark
// once the store has it. client-go's Reflector calls it for those of a watch.
func TestStoreGetsVersions(t *testing.T) {
	type test struct {
		source func(first *fakeStream) listwatch.Source
		want   []string // in the end: the version of the stream, and of the object
	}
	again := opens(state(secret("11"), "12")...)
	tests := map[string]test{
		"WatchList": {func(first *fakeStream) listwatch.Source {
			for _, e := range state(secret("5"), "7") {
				first.events <- e
			}
			return watching(first.answer, again)
		}, []string{"7 5", "8 8", "9 8", "12 11"}},
		"list and watch": {func(first *fakeStream) listwatch.Source {
			return listing(&fakeSource{
				onList:  lists(brings("7", secret("5")), brings("12", secret("11"))),
				onWatch: streams(first.answer, opens()),
			})
		}, []string{"7 5", "8 8", "9 8", "12 11"}},
		"resumed": {func(first *fakeStream) listwatch.Source {
			for _, e := range state(secret("5"), "7") {
				first.events <- e
			}
			return resumable{watching(first.answer, opens())}
		}, []string{"7 5", "8 8", "9 8", "12 8"}},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		first := newStream()
		source := test.source(first)
		store := &versionedSlot{Slot: newSecretSlot()}
		startParked(t, source, store, reflector.NewGate(reflector.GateOptions{}))
		synctest.Wait()
		first.events <- event(watch.Modified, secret("8"))
		first.events <- bookmark("9", false)
		synctest.Wait()
		first.finish(io.EOF)
		after(time.Minute)
		store.mu.Lock()
		defer store.mu.Unlock()
		if !slices.Equal(store.versions, test.want) {
			t.Errorf("versions: got %q, want %q", store.versions, test.want)
		}
	})
}
