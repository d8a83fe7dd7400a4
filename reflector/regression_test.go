// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// A list that is tried in place of a refused WatchList, and is throttled, makes
// the reflector wait as the server asked.
func TestRetryAfterOfAListInPlaceOfAWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{
			onList:  func(metav1.ListOptions) (runtime.Object, error) { return nil, throttled(30) },
			onWatch: streams(fails(forbidden())),
		}, reflector.Options{})
		after(5 * time.Minute)
		seen, lists := r.source.seen(), 0
		for i, request := range seen[:len(seen)-1] {
			if request.verb != "list" {
				continue
			}
			lists++
			if gap := seen[i+1].at.Sub(request.at); gap < 30*time.Second {
				t.Errorf("request after a throttled list: got it after %v, want 30 s at least", gap)
			}
		}
		if lists == 0 {
			t.Error("requests: got no list, want one now and then")
		}
	})
}

// Where list is allowed and watch is not, the refusal is logged at level 0, and not at each attempt.
func TestRefusedWatchIsLoggedOnce(t *testing.T) {
	log := logged(t, "0", func() {
		synctest.Test(t, func(t *testing.T) {
			start(t, &fakeSource{
				onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("9", *secret("5")), nil },
				onWatch: streams(fails(forbidden())),
			}, reflector.Options{})
			after(10 * time.Minute)
		})
	})
	if got := strings.Count(log, "\n"); got < 1 || got > 2 { // of the WatchList, and of the watch after a list
		t.Errorf("lines at level 0: got %d, want 1 or 2:\n%s", got, log)
	}
}

// A read that proves a rollback, and that the store refuses, proves it once. Other
// reflectors of the gate resume as before.
func TestRollbackIsProvedOnceThoughTheStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := secret("3")
		foreign.Name = "foreign"
		gate := reflector.NewGate(reflector.GateOptions{})
		start(t, &fakeSource{
			onList: func(metav1.ListOptions) (runtime.Object, error) { return list("7", *foreign), nil },
			onWatch: streams(
				breaks(errors.New("cut"), state(secret("50"), "50")...),
				fails(apierrors.NewTimeoutError("Too large resource version: 50, current: 7", 1)),
				opens(state(foreign, "7")...),
			),
		}, reflector.Options{Gate: gate})
		// The streams of the other one end each minute.
		other := &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			stream := newStream(state(secret("6"), "7")...)
			time.AfterFunc(time.Minute, func() { stream.finish(errors.New("end")) })
			return stream, nil
		}}
		bystander := start(t, other, reflector.Options{Gate: gate})
		after(20 * time.Minute)
		consistent := 0
		for _, request := range other.seen() {
			if request.options.ResourceVersion == "" {
				consistent++
			}
		}
		if consistent != 2 || len(other.seen()) < 15 {
			t.Errorf("got %d of %d reads of the other consistent, want its first two", consistent, len(other.seen()))
		}
		bystander.stop()
		after(2 * time.Minute) // for the timers of its streams
	})
}
