// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// lateInformer is an informer that syncs when a test says so.
type lateInformer struct {
	toolscache.SharedIndexInformer

	source toolscache.ListerWatcher
	synced atomic.Bool
}

func (i *lateInformer) HasSynced() bool { return i.synced.Load() }

// withLateInformer runs f in a bubble, with a cache whose informer is late.
func withLateInformer(t *testing.T, f func(t *testing.T, r *rig, late *lateInformer)) {
	t.Helper()
	late := &lateInformer{}
	stock := cache.Options{NewInformer: func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		late.SharedIndexInformer, late.source = toolscache.NewSharedIndexInformer(lw, example, resync, indexers), lw
		return late
	}}
	inBubble(t, controllerruntime.CacheOptions{}, stock, func(t *testing.T, r *rig) { f(t, r, late) })
}

// GetInformer waits for the sync unless an option says otherwise, and so does
// WaitForCacheSync: a NewInformer may return informers that do not sync at once.
func TestWaitForInformer(t *testing.T) {
	withLateInformer(t, func(t *testing.T, r *rig, late *lateInformer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.cache.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false)); err != nil || ctx.Err() != nil {
			t.Errorf("without waiting: got %v, want the informer at once", err)
		}
		for _, opts := range [][]cache.InformerGetOption{nil, {cache.BlockUntilSynced(true)}} {
			short, cancel := context.WithTimeoutCause(ctx, time.Second, errShutdown)
			_, err := r.cache.GetInformer(short, &corev1.Secret{}, opts...)
			if !apierrors.IsTimeout(err) || !errors.Is(err, errShutdown) || !strings.Contains(err.Error(), "informer of Secret") {
				t.Errorf("with %d options: got %v, want a timeout with its cause", len(opts), err)
			}
			cancel()
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		if r.cache.WaitForCacheSync(short) {
			t.Error("WaitForCacheSync: got true before the informer has synced")
		}
		cancel()
		late.synced.Store(true)
		if _, err := r.cache.GetInformer(ctx, &corev1.Secret{}); err != nil || !r.cache.WaitForCacheSync(ctx) {
			t.Errorf("synced: got %v, want the informer", err)
		}
	})
}

// Start returns only when the watch of an informer has ended.
func TestStartWaitsForWatches(t *testing.T) {
	withLateInformer(t, func(t *testing.T, r *rig, late *lateInformer) {
		late.synced.Store(true)
		r.record(&corev1.Secret{})
		watch, err := late.source.Watch(metav1.ListOptions{}) //nolint:staticcheck // its context outlives that of Start
		if err != nil {
			t.Fatal(err)
		}
		var returned atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.stop()
			returned.Store(true)
		}()
		synctest.Wait()
		if returned.Load() {
			t.Error("Start has returned while a watch is running")
		}
		watch.Stop()
		<-ended
	})
}
