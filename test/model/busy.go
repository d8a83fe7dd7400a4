// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// begin makes the cluster as busy as the settings say, until stop is called.
func (w *World) begin() (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	if w.settings.latency > 0 {
		w.intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
			wait(ctx, w.settings.latency)
			return nil
		})
	}
	if w.settings.busy > 0 {
		running.Go(func() { w.churn(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// churn writes an object that nobody references, again and again. Versions of all kinds rise, and with them those of
// bookmarks.
func (w *World) churn(ctx context.Context) {
	client := w.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	for i := 0; wait(ctx, w.settings.busy); i++ {
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Data: map[string]string{"write": fmt.Sprint(i)}}
		_, err := client.Update(w.ctx, other, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) { // at first, and after a restore
			_, err = client.Create(w.ctx, other, metav1.CreateOptions{})
		}
		w.must(err)
	}
}

// wait waits, in virtual time. It returns false if ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
