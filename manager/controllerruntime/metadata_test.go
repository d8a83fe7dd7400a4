// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

var stockMetadata = controllerruntime.CacheOptions{StockMetadata: true}

// drained makes the stock cache's informers read their watches to the end. client-go's watch of metadata otherwise
// keeps a goroutine if it ends while an event arrives (watch.Filter), which a bubble does not allow.
func drained(stock crcache.Options) crcache.Options {
	stock.NewInformer = func(from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: toolscache.ToListerWatcherWithContext(from).ListWithContext,
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				w, err := toolscache.ToListerWatcherWithContext(from).WatchWithContext(ctx, options)
				if err != nil {
					return nil, err
				}
				return drainedWatch{w}, nil
			},
		}, withoutWatchList{}), example, resync, indexers)
	}
	return stock
}

// withoutWatchList makes informers list and watch, as those of metadata do.
type withoutWatchList struct{}

func (withoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }

type drainedWatch struct{ watch.Interface }

func (w drainedWatch) Stop() {
	w.Interface.Stop()
	go func() {
		for range w.ResultChan() {
		}
	}()
}

// With StockMetadata, handlers of metadata get the events of all objects, also of those that no Get has asked for, and
// metadata is listed. Typed Gets are by reference.
func TestStockMetadata(t *testing.T) {
	inBubble(t, stockMetadata, drained(crcache.Options{}), func(t *testing.T, r *rig) {
		r.create("one", "1")
		seen := r.record(secretMetadata())
		r.create("two", "2")
		seen.want(t, "without a Get", "add one", "add two")
		r.wantStreams("without a Get", 1)
		r.wantValue("one", "1")
		r.wantStreams("after a Get", 2)
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		if err := r.cache.List(t.Context(), list); err != nil || len(list.Items) != 2 {
			t.Errorf("List of metadata: got %d objects and %v, want 2", len(list.Items), err)
		}
		if err := r.cache.RemoveInformer(t.Context(), secretMetadata()); err != nil {
			t.Fatal(err)
		}
		r.wantStreams("after RemoveInformer", 1)
	})
}

// muteWatches makes the server send nothing more on those watches of Secrets that are open when the returned function
// is called, and no deletion on later ones.
func (r *rig) muteWatches(which func(apiserver.Request) bool) (mute func()) {
	var open sync.Map
	var muted atomic.Bool
	r.server.Rewrite(apiserver.Rewriter{Event: func(ctx context.Context, request apiserver.Request, event watch.Event) []watch.Event {
		if !muted.Load() {
			open.Store(ctx, nil)
		} else if _, ok := open.Load(ctx); which(request) && (ok || event.Type == watch.Deleted) {
			return nil
		}
		return []watch.Event{event}
	}})
	return func() { muted.Store(true) }
}

// An object without metadata, because no selector selects it, is read live once.
func TestTypedGetWithoutMetadata(t *testing.T) {
	options := controllerruntime.CacheOptions{StockMetadata: true, Selected: selectedSecrets.Selected}
	inBubble(t, options, drained(selections["label"]), func(t *testing.T, r *rig) {
		r.record(secretMetadata())
		r.createTwo()
		before := len(secretRequests(r.server))
		for range 10 {
			two := &corev1.Secret{}
			if err := r.cache.Get(t.Context(), keyOfTwo, two); err != nil || string(two.Data["value"]) != "2" {
				t.Fatalf("got %q and %v, want 2", two.Data["value"], err)
			}
		}
		if requests := secretRequests(r.server)[before:]; len(requests) > 8 {
			t.Errorf("ten Gets: got %d requests, want 8 at most: %q", len(requests), requests)
		}
	})
}
