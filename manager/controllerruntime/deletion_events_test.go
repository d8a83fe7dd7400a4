// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// After handlers know that an object has left the set, a Get does not return its state from before, though no event
// has come by name: it was deleted, or it has lost its label.
func TestSelectedAfterTheLastEvent(t *testing.T) {
	for name, test := range map[string]struct {
		leave func(*rig)
		want  string
	}{
		"deleted":    {func(r *rig) { r.remove("one") }, "absent"},
		"relabelled": {func(r *rig) { r.setValue(keyOfOne, "2"); r.label("one", nil) }, "2"},
		"deleted while the set was not watched": {func(r *rig) {
			r.removeUnwatched("one")
		}, "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
				seen := r.createInSetAndByName()
				test.leave(r)
				synctest.Wait()
				if last := seen.last(); !strings.HasPrefix(last, "delete ") {
					t.Fatalf("got the event %q, want a deletion", last)
				}
				before := 0
				for i := range 3 {
					if got := r.value(r.cache, "one"); got != test.want {
						t.Errorf("after the event: got %q, want %q", got, test.want)
					}
					if requests := len(secretRequests(r.server)); i == 0 {
						before = requests
					} else if requests > before {
						t.Errorf("after the event: Get %d sent a request, too", i+1)
					}
				}
			})
		})
	}
}

// After the event that an object has left the set, a Get whose read fails returns the error, and so does the next one:
// the state of before is not returned. When the server answers again, a Get returns the state, however long that took.
func TestSelectedAfterTheLastEventIsRefused(t *testing.T) {
	inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
		seen := r.createInSetAndByName()
		r.removeUnwatched("one")
		seen.wantLast(t, "deletion", "delete one=1")
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Name == "" {
				return nil
			}
			return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, nil).ErrStatus
		})
		for range 3 {
			if _, err := r.get("one"); !apierrors.IsForbidden(err) {
				t.Errorf("while the server refuses: got error %v, want Forbidden", err)
			}
			time.Sleep(time.Minute)
		}
		r.server.Intercept(nil)
		time.Sleep(time.Minute)
		if got := r.value(r.cache, "one"); got != "absent" {
			t.Errorf("when the server answers again: got %q, want absent", got)
		}
	})
}

// createInSetAndByName creates the Secret "one", which the set has, and which is held by name as well. Its watch by
// name brings nothing more. It returns the events of the set.
func (r *rig) createInSetAndByName() *events {
	r.t.Helper()
	mute := r.muteWatches(func(request apiserver.Request) bool { return request.Name != "" })
	seen := r.record(&corev1.Secret{})
	r.create("one", "1")
	r.label("one", nil)
	r.wantValue("one", "1") // by name
	r.label("one", map[string]string{"app": "web"})
	mute()
	return seen
}

// removeUnwatched deletes a Secret while the set cannot be watched. The set is then listed again, and the event of the
// deletion has no version.
func (r *rig) removeUnwatched(name string) {
	release := r.hang(ofSet)
	r.server.CloseStreams(ofSet)
	r.remove(name)
	r.server.Compact()
	release()
	time.Sleep(time.Minute)
}

// last returns the last event.
func (e *events) last() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[len(e.all)-1]
}
