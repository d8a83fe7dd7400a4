// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The owner of an immutable object never noticed that it was created again.
func TestIssue8RecreatedImmutableIsNoticed(t *testing.T) {
	tests := map[string]struct {
		recheck time.Duration
		wait    time.Duration
		noticed bool
	}{
		"default, before its time": {0, 10*time.Minute - time.Second, false},
		"default":                  {0, 20*time.Minute + time.Second, true},
		"shorter":                  {time.Minute, 2*time.Minute + time.Second, true},
		"never":                    {-1, 24 * time.Hour, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{ImmutableRecheck: test.recheck}, func(t *testing.T, r *rig) {
				uid := r.create("tls", immutable).UID
				r.AddReference(namespace, "tls", "ingress")
				r.within("tls", time.Second, uid)
				sub := r.subscribe()
				defer sub.stop()
				sub.seen()
				r.remove("tls")
				created := r.create("tls", immutable, func(s *corev1.Secret) { s.Data["password"] = []byte("new") })
				time.Sleep(test.wait)
				if test.noticed {
					uid = created.UID
					want(t, "changes", sub.seen(), "tls=new")
				} else {
					want(t, "changes", sub.seen())
				}
				r.within("tls", time.Second, uid)
				if got := r.phase("tls"); got != servingImmutable || r.streams("tls") != 0 {
					t.Errorf("got phase %s and %d streams, want Immutable and none", got, r.streams("tls"))
				}
			})
		})
	}
}

// A recreated immutable object is also noticed if lists fail for good, and WatchLists work.
func TestRecreatedImmutableIsNoticedWithoutLists(t *testing.T) {
	for name, failure := range map[string]*apierrors.StatusError{
		"throttled": apierrors.NewTooManyRequests("slow down", 1), "forbidden": forbidden(), "failing": apierrors.NewInternalError(errors.New("etcd")),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.referenced("tls", immutable)
				r.remove("tls")
				uid := r.create("tls", immutable).UID
				r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb != "list" {
						return nil
					}
					return &failure.ErrStatus
				})
				time.Sleep(23 * time.Minute)
				r.within("tls", 0, uid)
			})
		})
	}
}

// A recheck that finds no change yields nothing, and no Get waits for it.
func TestRecheckWithoutAChange(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		uid := r.create("tls", immutable).UID
		r.AddReference(namespace, "tls", "pod")
		r.within("tls", time.Second, uid)
		sub := r.subscribe()
		defer sub.stop()
		sub.seen()
		time.Sleep(time.Hour)
		want(t, "unchanged", sub.seen())
		if got := r.reads("tls"); got < 31 || got > 61 {
			t.Errorf("reads in an hour: got %d, want one every one to two minutes", got)
		}
		status, _ := r.Status(namespace, "tls")
		if age := time.Since(status.LastContact); age > 2*time.Minute {
			t.Errorf("age: got %v, want at most that of the last recheck", age)
		}
		release := r.holdBack("list")
		for began := time.Now(); r.phase("tls") != objectcache.PhaseNotUpdated; time.Sleep(time.Second) {
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("phase: got %s for two minutes, want NotUpdated during a recheck that hangs", r.phase("tls"))
			}
		}
		began := time.Now()
		r.within("tls", 0, uid)
		if took := time.Since(began); took != 0 {
			t.Errorf("Get during a recheck took %v, want 0", took)
		}
		release()
		r.remove("tls")
		time.Sleep(2*time.Minute + time.Second)
		want(t, "deleted", sub.seen(), "tls gone")
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
		if got := r.phase("tls"); got != absentNamed {
			t.Errorf("phase: got %s, want Absent", got)
		}
	})
}

// Rechecks do not keep an object from being idle.
func TestRecheckAndIdleTimeout(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute, IdleTimeout: 5 * time.Minute}, func(t *testing.T, r *rig) {
		uid := r.create("tls", immutable).UID
		r.AddReference(namespace, "tls", "pod")
		r.within("tls", time.Second, uid)
		time.Sleep(10*time.Minute + time.Second)
		if got := r.phase("tls"); got != objectcache.PhaseIdle {
			t.Errorf("phase: got %s, want Idle", got)
		}
		before := r.reads("tls")
		time.Sleep(time.Hour)
		if got := r.reads("tls"); got != before {
			t.Errorf("requests while idle: got %d, want none", got-before)
		}
		r.within("tls", time.Second, uid)
	})
}
