// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

func TestGetReturnsFromMemory(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		created := r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		first, second := r.mustGet("tls"), r.mustGet("tls")
		if first.UID != created.UID || string(first.Data["password"]) != canary {
			t.Errorf("got %v, want the object as created", first.ObjectMeta)
		}
		if first != second {
			t.Error("two Gets returned two objects, want one shared")
		}
		if got := r.opens("tls"); got != 1 {
			t.Errorf("streams opened: got %d, want 1", got)
		}
		r.update("tls", "new")
		if got := r.mustGet("tls"); string(got.Data["password"]) != "new" {
			t.Errorf("after an update: got %q, want new", got.Data["password"])
		}
	})
}

func TestGetNotRegistered(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		_, err := r.Get(t.Context(), namespace, "tls") // without a deadline: Get must not wait
		if !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("got %v, want ErrNotRegistered", err)
		}
		if got := r.opens("tls"); got != 0 {
			t.Errorf("streams opened: got %d, want none", got)
		}
	})
}

func TestGetNotFoundOnlyWhenAbsent(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		_, err := r.Get(t.Context(), namespace, "tls")
		if !apierrors.IsNotFound(err) {
			t.Fatalf("absent: got %v, want NotFound", err)
		}
		var status *apierrors.StatusError
		if !errors.As(err, &status) || status.ErrStatus.Details.Name != "tls" || status.ErrStatus.Details.Kind != "secrets" {
			t.Errorf("details: got %+v, want the name and resource", status.ErrStatus.Details)
		}
		if want := `secrets "default/tls" not found`; err.Error() != want {
			t.Errorf("text: got %q, want %q", err, want)
		}
		r.create("tls")
		r.mustGet("tls")
		r.remove("tls")
		if _, err := r.Get(t.Context(), namespace, "tls"); !apierrors.IsNotFound(err) {
			t.Errorf("after deletion: got %v, want NotFound", err)
		}
	})
}

// A time-out, a refusal or an outage is never NotFound. errors.Is finds all causes.
func TestGetErrorsHaveCauses(t *testing.T) {
	tests := map[string]struct {
		refusal *apierrors.StatusError
		is      []error
		check   func(error) bool
		ends    time.Duration
	}{
		"forbidden ends early": {forbidden(), []error{objectcache.ErrNotSynced}, apierrors.IsForbidden, time.Second},
		"unauthorized ends early": {
			apierrors.NewUnauthorized("token expired"), []error{objectcache.ErrNotSynced}, apierrors.IsUnauthorized, time.Second,
		},
		"outage lasts until ctx ends": {
			unavailable(), []error{objectcache.ErrNotSynced, context.DeadlineExceeded}, apierrors.IsServiceUnavailable, 20 * time.Second,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{OutageGrace: -1}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.refuse(test.refusal)
				r.AddReference(namespace, "tls", "pod")
				began := time.Now()
				_, err := r.get("tls", 20*time.Second)
				for _, want := range test.is {
					if !errors.Is(err, want) {
						t.Errorf("error: got %v, want it to be %v", err, want)
					}
				}
				if !test.check(err) || apierrors.IsNotFound(err) {
					t.Errorf("error: got %v, want the cause and never NotFound", err)
				}
				if !strings.HasPrefix(err.Error(), `secrets "default/tls": not synced`) {
					t.Errorf("text: got %q, want the resource and the key first", err)
				}
				if got := time.Since(began); got < test.ends || got > test.ends+500*time.Millisecond {
					t.Errorf("Get ended after %v of virtual time, want %v", got, test.ends)
				}
			})
		})
	}
}

// Peer bug 6: kubelet formats the cause with %v after a time-out, so errors.Is does
// not find it.
func TestPeerBug06_CauseOfAFailedSync(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{RefusalGrace: -1}, func(t *testing.T, r *rig) {
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod")
		_, err := r.get("tls", 5*time.Second)
		if !errors.Is(err, objectcache.ErrNotSynced) || !errors.Is(err, context.DeadlineExceeded) || !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want ErrNotSynced, DeadlineExceeded and Forbidden", err)
		}
	})
}

func TestGetReturnsTheCauseOfTheContext(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		cause := errors.New("the volume is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := r.async(ctx, "tls")
		cancel(cause)
		if got := <-done; !errors.Is(got.err, cause) || !errors.Is(got.err, context.Canceled) {
			t.Errorf("got %v, want Canceled and its cause", got.err)
		}
	})
}

// Get does not return an old refusal. It waits for a new one or for the object.
func TestPeerBug07_DemandEndsTheBackoff(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod")
		r.untilRefusalIsOld()
		r.refuse(nil)
		began := time.Now()
		if _, err := r.get("tls", time.Minute); err != nil {
			t.Fatalf("got %v, want the object", err)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("Get after the grant: took %v of virtual time, want at most 200 ms", took)
		}
	})
}

// RefusalGrace counts from the call of Get, however long the server has refused,
// unless the last refusal is recent.
func TestGraceStartsWithGet(t *testing.T) {
	// The grace is longer than the back-off while a Get waits.
	inBubble(t, objectcache.WatchOptions{RefusalGrace: 2 * time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod")
		r.untilRefusalIsOld()
		time.AfterFunc(250*time.Millisecond, func() { r.refuse(nil) })
		if _, err := r.get("tls", time.Minute); err != nil {
			t.Errorf("got %v, want the object: the refusal ended within the grace", err)
		}
	})
}

// The sync wakes Get. Get returns at the moment of the answer, which polling would
// miss.
func TestPeerBug14_GetIsWokenByTheSync(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		answer := make(chan struct{})
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "watch" {
				<-answer
			}
			return nil
		})
		r.AddReference(namespace, "tls", "pod")
		var waiting []<-chan result
		for range 100 {
			waiting = append(waiting, r.async(t.Context(), "tls"))
		}
		time.Sleep(1234567 * time.Nanosecond)
		answered := time.Now()
		close(answer)
		for _, done := range waiting {
			got := <-done
			if got.err != nil {
				t.Fatalf("got %v, want the object", got.err)
			}
			if !got.at.Equal(answered) {
				t.Fatalf("returned %v after the answer, want 0", got.at.Sub(answered))
			}
		}
	})
}

func TestGetBeforeRunWaitsForIt(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		done := r.async(t.Context(), "tls")
		if got := r.opens("tls"); got != 0 {
			t.Errorf("streams opened before Run: got %d, want none", got)
		}
		r.run()
		if got := <-done; got.err != nil {
			t.Errorf("got %v, want the object", got.err)
		}
	})
}

func TestGetEndsWithItsContext(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
			<-ctx.Done()
			return nil
		})
		r.AddReference(namespace, "tls", "pod")
		ctx, cancel := context.WithCancel(t.Context())
		done := r.async(ctx, "tls")
		time.Sleep(10 * time.Minute)
		select {
		case got := <-done:
			t.Fatalf("returned %v, want it to wait for as long as ctx allows", got.err)
		default:
		}
		cancel()
		if got := <-done; !errors.Is(got.err, context.Canceled) {
			t.Errorf("got %v, want Canceled", got.err)
		}
	})
}

func TestGetDoesNotAllocate(t *testing.T) {
	tests := map[string]objectcache.WatchOptions{
		"default":       {},
		"idle time-out": {IdleTimeout: time.Hour},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls")
				ctx := t.Context()
				var got *corev1.Secret
				if n := testing.AllocsPerRun(100, func() { got, _ = r.Get(ctx, namespace, "tls") }); n != 0 {
					t.Errorf("allocations per Get: got %v, want 0", n)
				}
				if got == nil {
					t.Error("Get returned nothing")
				}
			})
		})
	}
}

// A TryGet that finds nothing does not wait, so its object is not opened before that of a
// Get that waits.
func TestTryGetDoesNotOvertakeAGet(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{Gate: objectcache.NewGate(objectcache.GateOptions{Opens: 1})}, func(t *testing.T, r *rig) {
		release := r.holdBack("watch")
		for i := range 100 {
			name := fmt.Sprint("other-", i)
			r.AddReference(namespace, name, "pod")
			_, _ = r.TryGet(namespace, name)
		}
		r.AddReference(namespace, "wanted", "pod")
		got := r.async(t.Context(), "wanted")
		release()
		<-got
		synctest.Wait()
		var opened []string
		for _, request := range r.server.Requests() {
			opened = append(opened, request.Name)
		}
		if at := slices.Index(opened, "wanted"); at < 0 || at > 10 {
			t.Errorf("wanted was opened as number %d, want it among the first", at)
		}
	})
}
