// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/test/apiserver"
)

// pausedInformer is an informer whose reads pause before they return.
type pausedInformer struct {
	cache.SharedIndexInformer

	pause func()
}

func (i pausedInformer) GetIndexer() cache.Indexer {
	return pausedIndexer{i.SharedIndexInformer.GetIndexer(), i.pause}
}

type pausedIndexer struct {
	cache.Indexer

	pause func()
}

func (i pausedIndexer) GetByKey(key string) (item any, exists bool, err error) {
	defer i.pause()
	return i.Indexer.GetByKey(key)
}

// Of two Gets at a time, the one that ends later may have read the older state of the set. Later Gets return none older
// than the newer one.
func TestSelectedReadsAtATime(t *testing.T) {
	var paused atomic.Pointer[chan struct{}]
	stock := selections["label"]
	stock.NewInformer = func(from cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		return pausedInformer{cache.NewSharedIndexInformer(from, example, resync, indexers), func() {
			if until := paused.Load(); until != nil {
				<-*until
			}
		}}
	}
	inBubble(t, selectedSecrets, stock, func(t *testing.T, r *rig) {
		mute := r.muteWatches(func(request apiserver.Request) bool { return request.Name != "" })
		r.create("one", "1")
		r.label("one", nil)
		r.wantValue("one", "1") // by name
		r.label("one", map[string]string{"app": "web"})
		mute()
		until, ended := make(chan struct{}), make(chan struct{})
		paused.Store(&until)
		go func() {
			defer close(ended)
			r.wantValue("one", "1")
		}()
		synctest.Wait()
		paused.Store(nil)
		r.setValue(keyOfOne, "2")
		r.wantValue("one", "2")
		close(until)
		<-ended
		r.label("one", nil)
		r.wantValue("one", "2")
	})
}
