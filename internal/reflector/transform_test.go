// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
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

// A Transform that fails fails the attempt and no other. The store keeps what it has, another attempt follows after a
// pause, and there is no outage. The failure is the program's, whatever its error wraps, and shows no object data.
func TestTransformFails(t *testing.T) {
	returns := func(err error) toolscache.TransformFunc { return func(any) (any, error) { return nil, err } }
	changes := func(change func(*corev1.Secret)) toolscache.TransformFunc {
		return func(object any) (any, error) {
			changed := object.(*corev1.Secret)
			change(changed)
			return changed, nil
		}
	}
	for name, fail := range map[string]toolscache.TransformFunc{
		"an error":              returns(errors.New(canary)),
		"an API status":         returns(apierrors.NewBadRequest(canary)),
		"a text as of net/http": returns(errors.New("http: " + canary)),
		"a Retry-After":         returns(fmt.Errorf("%s: %w", canary, apierrors.NewTooManyRequests(canary, 3600))),
		"a panic":               func(any) (any, error) { panic(canary) },
		"runtime.Goexit":        func(any) (any, error) { goruntime.Goexit(); return nil, nil },
		"nothing":               returns(nil),
		"a pointer to nothing":  func(any) (any, error) { return (*corev1.Secret)(nil), nil },
		"no object":             func(any) (any, error) { return canary, nil },
		"another type": func(object any) (any, error) {
			return &corev1.ConfigMap{ObjectMeta: object.(*corev1.Secret).ObjectMeta}, nil
		},
		"another name":             changes(func(secret *corev1.Secret) { secret.Name = canary }),
		"another namespace":        changes(func(secret *corev1.Secret) { secret.Namespace = canary }),
		"another UID":              changes(func(secret *corev1.Secret) { secret.UID = canary }),
		"another resource version": changes(func(secret *corev1.Secret) { secret.ResourceVersion = canary }),
		"a later resource version": changes(func(secret *corev1.Secret) { secret.ResourceVersion = "99999" }),
		"no resource version":      changes(func(secret *corev1.Secret) { secret.ResourceVersion = "" }),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls atomic.Int32
				var ok atomic.Bool
				ok.Store(true)
				gate := reflector.NewGate(reflector.GateOptions{})
				stream := newStream(state(secret("5"), "7")...)
				r := start(t, watching(stream.answer, opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate, Transform: func(object any) (any, error) {
					if calls.Add(1); ok.Load() {
						return object, nil
					}
					return fail(object)
				}})
				ok.Store(false)
				stream.events <- event(watch.Modified, secret("8"))
				time.Sleep(time.Minute)
				synctest.Wait()
				status := r.Status()
				if got := r.slot.Load(); !errors.Is(status.LastError, listwatch.ErrStore) || got.ResourceVersion != "5" {
					t.Errorf("got the error %v, and version %q, want ErrStore, and the state before", status.LastError, got.ResourceVersion)
				} else {
					checkSecrecy(t, "error", status.LastError.Error())
					if strings.HasSuffix(name, "nothing") && !strings.Contains(status.LastError.Error(), "returned no object but") {
						t.Errorf("got the error %v, want that Transform has returned no object", status.LastError)
					}
				}
				if got := calls.Load(); got < 5 || got > 60 {
					t.Errorf("got %d attempts in a minute, want 5 to 60", got)
				}
				if cause := gate.Status().Cause; cause != nil || status.Malformed > 0 {
					t.Errorf("got an outage with %v, and %d malformed answers, want none", cause, status.Malformed)
				}
				if got := status.ResourceVersion; got != "7" {
					t.Errorf("got the version %s, want 7, which the server has had", got)
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

// The text of an error that Loggable has marked is shown.
func TestTransformFailsWithALoggableError(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"an error": {errors.New("no certificate"), "the store failed: Transform: no certificate"},
		"ErrStore": {fmt.Errorf("%w: no certificate", listwatch.ErrStore), "the store failed: no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Transform: func(any) (any, error) {
					return nil, fmt.Errorf("%s: %w", canary, redact.Loggable(test.err))
				}})
				if got := r.Status().LastError; got == nil || got.Error() != test.want {
					t.Errorf("got %v, want %s", got, test.want)
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

// The last contact is the newest, also if Transform works with an event when a verification of the stream ends.
func TestTransformOfAnEventDuringAVerification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer, free := make(chan struct{}), make(chan struct{})
		stream := newStream(state(secret("5"), "7")...)
		source := &fakeSource{onWatch: streams(stream.answer), onList: func(metav1.ListOptions) (runtime.Object, error) {
			<-answer
			return list("7", secret("5")), nil
		}}
		r := start(t, source, reflector.Options{Transform: transforming(func(version string) error {
			if version == "8" {
				<-free
			}
			return nil
		})})
		after(2*time.Minute + 45*time.Second)
		stream.events <- event(watch.Modified, secret("8"))
		after(time.Second)
		close(answer)
		synctest.Wait()
		verified := r.Status().LastContact
		if took := time.Since(verified); took != 0 {
			t.Errorf("after the verification: got a last contact %v ago, want it now", took)
		}
		after(time.Second)
		close(free)
		synctest.Wait()
		if got := r.Status().LastContact; r.slot.Load().Object.ResourceVersion != "8" || !got.Equal(verified) {
			t.Errorf("with the event in the store: got a last contact at %v, want still %v", got, verified)
		}
	})
}

// A rollback that others prove while Transform works with an answer, or while the answer is under way, ends the stream
// after it: it may be of before the rollback, and silent for ever.
func TestRollbackDuringTransform(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		free := make(chan struct{})
		silent := start(t, watching(opens(state(secret("90"), "100")...), opens(state(secret("40"), "60")...)), reflector.Options{
			Gate: gate, Transform: transforming(func(version string) error {
				if version == "90" {
					<-free
				}
				return nil
			}),
		})
		start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("40"), "60")...)), reflector.Options{Gate: gate}).Refresh()
		after(10 * time.Second)
		close(free)
		after(10 * time.Second)
		if got := silent.slot.Load(); got.ResourceVersion != "40" {
			t.Errorf("state: got %+v, want version 40", got)
		}
		after(time.Minute)
		if got := silent.source.asked(); len(got) != 2 {
			t.Errorf("requests: got %q, want two", got)
		}
	})
}

// While Transform works with the answers to consistent reads, others read at their versions.
func TestTransformLeavesReadsShared(t *testing.T) {
	for _, took := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				gate := reflector.NewGate(reflector.GateOptions{Opens: 16})
				transform := transforming(func(string) error { time.Sleep(took); return nil })
				answer := func() (listwatch.Stream, error) {
					time.Sleep(5 * time.Millisecond)
					return opens(state(secret("5"), "7")...)()
				}
				var sources []*fakeSource
				for range 1000 {
					sources = append(sources, watching(answer))
					startWith(t, sources[len(sources)-1], newSecretSlot(), reflector.Options{Gate: gate, Resource: "secrets", Transform: transform})
				}
				time.Sleep(5 * time.Minute)
				consistent := 0
				for _, source := range sources {
					if asked := source.asked(); len(asked) == 0 {
						t.Fatal("a reflector has sent no request")
					} else if asked[0] == "WatchList " {
						consistent++
					}
				}
				if consistent > 40 {
					t.Errorf("first requests of 1,000 reflectors: got %d consistent reads, want 40 at most", consistent)
				}
			})
		})
	}
}

// What has waited for Transform in a parked stream is as old as the event before it. In another one it counts from when
// it was read.
func TestEventsThatWaitForTransform(t *testing.T) {
	read, update := state(secret("8"), "8"), append(state(secret("5"), "7"), event(watch.Modified, secret("8")))
	for name, test := range map[string]struct {
		events []watch.Event // for the last of which Transform blocks
		blocks time.Duration
		queued watch.Event
	}{
		"an event":            {update, time.Minute, event(watch.Modified, secret("9"))},
		"a deletion":          {update, time.Minute, event(watch.Deleted, secret("9"))},
		"a bookmark":          {update, time.Minute, bookmark("9", false)},
		"after half a second": {update, 400 * time.Millisecond, event(watch.Modified, secret("9"))},
		"after a read":        {read, time.Minute, event(watch.Modified, secret("9"))},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				free := make(chan struct{})
				stream := newStream(test.events...)
				began := time.Now()
				r := start(t, watching(stream.answer), reflector.Options{Transform: transforming(func(version string) error {
					if version == "8" {
						<-free
					}
					return nil
				})})
				time.Sleep(100 * time.Millisecond)
				stream.events <- test.queued
				time.Sleep(test.blocks)
				want := began
				if blockingStreams {
					want = time.Now()
				}
				close(free)
				synctest.Wait()
				if got := r.Status(); got.ResourceVersion != "9" || !got.LastContact.Equal(want) {
					t.Errorf("got version %s, and a last contact after %v, want 9, and after %v", got.ResourceVersion, got.LastContact.Sub(began), want.Sub(began))
				}
				for version := 10; version < 100; version++ { // a stream that is never silent for long
					time.Sleep(10 * time.Millisecond)
					stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
					synctest.Wait()
					if got := r.Status(); got.ResourceVersion != strconv.Itoa(version) || !got.LastContact.Equal(time.Now()) {
						t.Fatalf("a later event: got version %s, and a last contact %v ago, want %d, and now",
							got.ResourceVersion, time.Since(got.LastContact), version)
					}
				}
			})
		})
	}
}
