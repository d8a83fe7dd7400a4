// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// The events of changes are those that client-go's reflector would send. A refusal has
// none: it does not say that the object is gone.
func TestEventsOfChanges(t *testing.T) {
	exists := func(uid types.UID) objectcache.Change[client.Object] {
		return objectcache.Change[client.Object]{Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: uid}}}
	}
	absent := objectcache.Change[client.Object]{Err: apierrors.NewNotFound(corev1.Resource("secrets"), "one")}
	refused := objectcache.Change[client.Object]{
		Err: errors.Join(objectcache.ErrNotSynced, apierrors.NewForbidden(corev1.Resource("secrets"), "one", nil)),
	}
	changes := []objectcache.Change[client.Object]{refused, absent, exists("1"), refused, exists("1"), absent, absent, exists("2"), exists("3"), refused, absent}
	want := []string{"ADDED 1", "MODIFIED 1", "DELETED 1", "ADDED 2", "DELETED 2", "ADDED 3", "DELETED 3"}

	w := &changesWatch{events: make(chan watch.Event, len(want)+1)}
	var observed []bool
	w.run(t.Context(), func(yield func(objectcache.Change[client.Object], []types.UID) bool) {
		for _, change := range changes {
			yield(change, nil)
		}
	}, func(change objectcache.Change[client.Object]) { observed = append(observed, change.Err == nil) })
	close(w.events)
	var got []string
	for event := range w.events {
		got = append(got, string(event.Type)+" "+string(event.Object.(client.Object).GetUID()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got events %q, want %q", got, want)
	}
	if want := []bool{false, true, true, false, false, true, true, false}; !slices.Equal(observed, want) {
		t.Errorf("got observed %v, want %v", observed, want)
	}
}
