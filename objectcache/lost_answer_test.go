// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// loseAnswers makes the server never answer the next n requests for an object.
func (r *rig) loseAnswers(name string, n int32) {
	var lost atomic.Int32
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		if request.Name == name && request.Verb != "create" && request.Verb != "update" && lost.Add(1) <= n {
			<-ctx.Done()
		}
		return nil
	})
}

// answerAfter makes the server answer each list and watch of an object after some time, and refuse each GET: it would
// answer beside them.
func (r *rig) answerAfter(name string, takes time.Duration) {
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "get" {
			return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, nil).ErrStatus
		}
		if request.Name == name && (request.Verb == "list" || request.Verb == "watch") {
			timer := time.NewTimer(takes)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		return nil
	})
}

// A Get of a new owner waits for 1.5 to 3 s for the answer that was lost, and then returns
// the previous object.
func TestGetAfterALostAnswerReturnsThePreviousObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod-1")
		r.mustGet("tls")
		time.Sleep(time.Minute)
		r.loseAnswers("tls", 1)
		r.AddReference(namespace, "tls", "pod-2")
		began := time.Now()
		r.mustGetWithin("tls", 2*time.Minute)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Get took %v, want at most 3 s", took)
		}
	})
}

// A server that is slow for all has lost no answer: the new owner of an object that was
// created again gets the new one, although that takes longer than the grace.
func TestSlowAnswerIsNotALostOne(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.answerAfter("tls", 2*time.Second)
		r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod-1")
		r.mustGetWithin("tls", time.Minute)
		r.remove("tls")
		again := r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod-2")
		if got := r.mustGetWithin("tls", time.Minute); got.UID != again.UID {
			t.Errorf("Get of a new owner: got the predecessor %s, want %s", got.UID, again.UID)
		}
	})
}

// While a Get waits, a request without an answer is given up after 5 s, and then after
// twice as long each time.
func TestLostAnswerIsAskedForAgain(t *testing.T) {
	tests := map[string]struct {
		lost   int32
		lists  bool          // which only Get can give up: the transport sends watches again, and no lists
		late   time.Duration // until the Get comes
		within time.Duration // 5, 15, 35 s of waiting, and the pauses
	}{
		"one":        {lost: 1, within: 7 * time.Second},
		"two":        {lost: 2, within: 19 * time.Second},
		"three":      {lost: 3, within: 41 * time.Second},
		"two lists":  {lost: 2, lists: true, within: 19 * time.Second},
		"a late Get": {lost: 1, late: 30 * time.Second, within: 2 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true, DisableWatchList: test.lists}, objectcache.WatchOptions{})
				r.run()
				r.create("tls")
				r.loseAnswers("tls", test.lost)
				r.AddReference(namespace, "tls", "pod-1")
				time.Sleep(test.late)
				r.mustGetWithin("tls", test.within)
				r.stop()
			})
		})
	}
}

// A server whose answers take long gets the time that it needs, and few requests are in
// vain, also while a Get waits. The transport sends the first ones again on another
// connection after 1.5 s, and rarely later, for that does not help.
func TestSlowServerGetsItsTime(t *testing.T) {
	for takes, want := range map[time.Duration]struct {
		within   time.Duration
		requests int
	}{
		4 * time.Second:  {15 * time.Second, 8},
		8 * time.Second:  {40 * time.Second, 12},
		30 * time.Second: {3 * time.Minute, 25},
		50 * time.Second: {6 * time.Minute, 30},
	} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.answerAfter("tls", takes)
				r.AddReference(namespace, "tls", "pod-1")
				began := time.Now()
				r.mustGetWithin("tls", want.within)
				t.Logf("took %v, %d requests", time.Since(began), r.opens("tls"))
				if got := r.opens("tls"); got > want.requests {
					t.Errorf("requests: got %d, want at most %d", got, want.requests)
				}
			})
		})
	}
}

// The same holds for a Get that demands a read of an object with an open stream, where WatchLists hang and lists work.
func TestLostAnswerToADemandIsAskedForAgain(t *testing.T) {
	for name, demands := range map[string]objectcache.GetOptions{"live": {Live: true}, "not staler": {MaxStaleness: time.Second}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod-1")
				r.mustGet("tls")
				time.Sleep(10 * time.Second)
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Query.Get("sendInitialEvents") != "" {
						<-ctx.Done()
					}
					return nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
				defer cancel()
				if _, err := r.GetWithOptions(ctx, namespace, "tls", demands); err != nil {
					t.Errorf("got %v, want the object", err)
				}
			})
		})
	}
}
