// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// setReady puts the result of a TryGet into the conditions of an object. status is what Status
// returned before that. It reports whether the conditions have changed, and must be written.
func setReady(conditions *[]metav1.Condition, status objectcache.Status, err error) (changed bool) {
	ready := metav1.Condition{Type: "CertificateReady", Status: metav1.ConditionTrue, Reason: "Found"}
	if err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NotSynced", err.Error()
	}
	switch {
	case errors.Is(err, objectcache.ErrStopped): // first: this process ends, and the next one writes
		return false
	case apierrors.IsNotFound(err):
		ready.Reason = "NotFound"
	case apierrors.IsForbidden(err):
		ready.Reason = "Forbidden"
	case errors.Is(err, objectcache.ErrNotSynced) && status.Failures == 0: // nothing has failed yet
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
	for change := range store.Changes(context.Background()) {
		fmt.Println("refused:", apierrors.IsForbidden(change.Err))
		break
	}
	for range 20 {
		status, _ := store.Status("default", "tls")
		_, err := store.TryGet("default", "tls")
		if setReady(&conditions, status, err) {
			writes++
		}
	}
	fmt.Println(conditions[0].Reason, writes)
	// Output:
	// refused: true
	// Forbidden 1
}
