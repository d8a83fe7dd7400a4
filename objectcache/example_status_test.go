// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// setReady puts the result of a Get into the conditions of an object. It reports whether the
// status has changed, and must be written.
func setReady(conditions *[]metav1.Condition, err error) (changed bool) {
	ready := metav1.Condition{Type: "CertificateReady", Status: metav1.ConditionTrue, Reason: "Found"}
	if err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NotSynced", err.Error()
	}
	switch {
	case apierrors.IsNotFound(err):
		ready.Reason = "NotFound"
	case apierrors.IsForbidden(err):
		ready.Reason = "Forbidden"
	case errors.Is(err, objectcache.ErrStopped): // this process ends: the next one writes
		return false
	}
	return meta.SetStatusCondition(conditions, ready)
}

// The text of an error is the same as long as its cause is. So it can be written into a status, once for each cause.
func ExampleWatchStore_Get_status() {
	server, store, stop := serveSecret(objectcache.WatchOptions{})
	defer stop()
	server.Intercept(answerAll(forbidden()))
	store.AddReference("default", "tls", "gateway")

	var conditions []metav1.Condition
	writes := 0
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := store.Get(ctx, "default", "tls")
		cancel()
		if setReady(&conditions, err) {
			writes++
		}
	}
	fmt.Println(conditions[0].Reason, writes)
	// Output: Forbidden 1
}
