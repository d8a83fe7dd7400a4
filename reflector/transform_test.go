// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// transforming returns a Transform that calls f with the version of each Secret, and sets its type.
func transforming(f func(version string) error) toolscache.TransformFunc {
	return func(object any) (any, error) {
		secret := object.(*corev1.Secret)
		secret.Type = "transformed"
		return secret, f(secret.ResourceVersion)
	}
}

// Transform gets what is stored, of reads and of events.
func TestTransform(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		events := append(state(secret("5"), "7"), event(watch.Modified, secret("8")), event(watch.Deleted, secret("9")))
		var versions []string
		start(t, watching(opens(events...)), reflector.Options{Transform: transforming(func(version string) error {
			versions = append(versions, version)
			return nil
		})})
		if fmt.Sprint(versions) != "[5 8]" {
			t.Errorf("transformed: got the versions %v, want 5 and 8", versions)
		}
	})
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Transform: transforming(func(string) error { return nil })})
		if got := r.slot.Load(); !got.Exists || got.Object.Type != "transformed" {
			t.Errorf("got %v, want what Transform has returned", got)
		}
	})
}

// A Transform that fails, or panics, fails the attempt and no other. The store keeps what it has, another attempt
// follows after a pause, and there is no outage.
func TestTransformFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"returns an error": func() error { return errors.New(canary) },
		"panics":           func() error { panic(canary) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls atomic.Int32
				var ok atomic.Bool
				ok.Store(true)
				gate := reflector.NewGate(reflector.GateOptions{})
				r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate, Transform: transforming(func(string) error {
					if calls.Add(1); ok.Load() {
						return nil
					}
					return fail()
				})})
				ok.Store(false)
				r.Refresh()
				time.Sleep(time.Minute)
				synctest.Wait()
				status := r.Status()
				if status.LastError == nil || !r.slot.Load().Exists {
					t.Errorf("got the error %v, and exists %v, want an error and the state before", status.LastError, r.slot.Load().Exists)
				} else {
					checkSecrecy(t, "error", status.LastError.Error())
				}
				if name == "returns an error" && !errors.Is(status.LastError, listwatch.ErrStore) {
					t.Errorf("got %v, want ErrStore", status.LastError)
				}
				if got := calls.Load(); got < 5 || got > 60 {
					t.Errorf("got %d attempts in a minute, want 5 to 60", got)
				}
				if cause := gate.Status().Cause; cause != nil {
					t.Errorf("got an outage with %v, want none", cause)
				}
				ok.Store(true)
				time.Sleep(time.Minute)
				if got := r.Status().Failures; got != 0 {
					t.Errorf("in the end: got %d failures in a row, want none", got)
				}
			})
		})
	}
}

// A Transform that blocks keeps no place of the Gate, and the session that has ended meanwhile stores nothing.
func TestTransformBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{Opens: 1})
		free := make(chan struct{})
		blocked := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate, Transform: transforming(func(string) error {
			<-free
			return nil
		})})
		other := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate})
		if !other.Status().Synced {
			t.Error("another reflector of the gate has not synced")
		}
		time.Sleep(time.Hour)
		if got := blocked.Status(); !got.Hung || got.Failures > 0 || gate.Status().Cause != nil {
			t.Errorf("an hour later: got %+v and the outage %v, want that it hangs, and neither a failure nor an outage", got, gate.Status().Cause)
		}
		blocked.Stop()
		close(free)
		blocked.wait()
		if blocked.slot.Load().Synced {
			t.Error("the session has stored its state, although it had ended")
		}
	})
}

// A state is as old as what the server has sent, however long Transform takes.
func TestTransformIsSlow(t *testing.T) {
	const took = 10 * time.Second
	for name, events := range map[string][]watch.Event{
		"a read":   state(secret("5"), "7"),
		"an event": append(state(secret("5"), "7"), event(watch.Modified, secret("8"))),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				began := time.Now()
				r := start(t, watching(opens(events...)), reflector.Options{Transform: transforming(func(version string) error {
					if name == "a read" || version == "8" {
						time.Sleep(took)
					}
					return nil
				})})
				time.Sleep(took)
				synctest.Wait()
				if got := r.Status(); !got.Synced || !got.LastContact.Equal(began) {
					t.Errorf("got %+v, want a last contact at %v", got, began)
				}
			})
		})
	}
}

// The last contact is the newest, also if Transform takes so long for an event that the stream is verified meanwhile.
func TestTransformOfAnEventDuringAVerification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		free := make(chan struct{})
		source := &fakeSource{
			onList:  lists(brings("7", secret("5"))),
			onWatch: streams(opens(append(state(secret("5"), "7"), event(watch.Modified, secret("8")))...)),
		}
		r := start(t, source, reflector.Options{Transform: transforming(func(version string) error {
			if version == "8" {
				<-free
			}
			return nil
		})})
		began := r.Status().LastContact
		time.Sleep(3 * time.Minute)
		verified := r.Status().LastContact
		if !verified.After(began) {
			t.Fatalf("after three minutes: got a last contact at %v, want a later one than %v", verified, began)
		}
		close(free)
		synctest.Wait()
		if got := r.Status().LastContact; r.slot.Load().Object.ResourceVersion != "8" || !got.Equal(verified) {
			t.Errorf("with the event in the store: got a last contact at %v, want still %v", got, verified)
		}
	})
}
