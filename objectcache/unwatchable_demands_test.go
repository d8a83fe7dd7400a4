// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Where watches are refused and lists work, a Get with a demand is served by a list. That a watch was refused just
// before is no refusal of the read.
func TestDemandsWhereWatchesAreRefused(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.refusesWatches()
		names := s.references(fewer(300), "tls")
		time.Sleep(time.Minute)
		for range 3 {
			s.getLive(names[:20])
		}
		s.answers(func(apiserver.Request) verdict { return status(forbidden()) })
		time.Sleep(5 * time.Minute)
		if got := s.countStatus(func(o objectcache.Status) bool { return o.Stream == objectcache.StreamPolled }); got > 0 {
			t.Errorf("after lists are refused, too: got %d objects that are polled, want none", got)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.secrets.GetWithOptions(ctx, namespace, names[0], objectcache.GetOptions{Live: true})
		if took := time.Since(began); !apierrors.IsForbidden(err) || took > 30*time.Second {
			t.Errorf("after lists are refused, too: Get with Live: got %v after %v, want Forbidden within 30 s", err, took)
		}
	})
}

// It is the same after lists have failed, too.
func TestDemandsWhereWatchesAreRefusedAfterAnOutage(t *testing.T) {
	crowd(t)
	for name, outage := range map[string]*apierrors.StatusError{"503": unavailable(), "403": forbidden()} {
		t.Run(name, func(t *testing.T) {
			inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
				s.refusesWatches()
				names := s.references(fewer(200), "tls")
				time.Sleep(time.Minute)
				s.answers(func(apiserver.Request) verdict { return status(outage) })
				time.Sleep(3 * time.Minute)
				s.refusesWatches()
				time.Sleep(2100 * time.Millisecond) // the last refusal of a list is older than a Get waits after one
				for s.gate.Status().Cause != nil {
					time.Sleep(100 * time.Millisecond)
				}
				s.getLive(append(s.unpolled(), names...)[:20])
			})
		})
	}
}

// Watches are refused, lists work, and one list is refused. RefusalGrace counts from that refusal: a Get that waits for
// it has the state of the next list.
func TestRefusalGraceOfAPolledObject(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		options := objectcache.WatchOptions{Gate: s.gate, RefusalGrace: 5 * time.Second}
		store := newStore(t, resource.Secrets(s.client()), options)
		defer runStore(t.Context(), t, store)()
		var refuse atomic.Bool
		refused := make(chan struct{})
		s.answers(func(request apiserver.Request) verdict {
			if request.Verb == "watch" || request.Verb == "get" {
				return status(forbidden())
			}
			if refuse.CompareAndSwap(true, false) {
				close(refused)
				return status(forbidden())
			}
			return verdict{}
		})
		store.AddReference(namespace, "tls", "pod")
		time.Sleep(3 * time.Minute)
		refuse.Store(true)
		<-refused
		time.Sleep(50 * time.Millisecond) // its answer arrives, and the next list is not due
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := store.GetWithOptions(ctx, namespace, "tls", objectcache.GetOptions{Live: true}); !apierrors.IsNotFound(err) {
			t.Errorf("Get with Live after the only refusal of a list: got %v, want NotFound", err)
		}
	})
}

// unpolled returns the names of the objects that are not polled now.
func (s *storm) unpolled() (names []string) {
	for o := range s.secrets.Statuses() {
		if o.Stream != objectcache.StreamPolled {
			names = append(names, o.Key.Name)
		}
	}
	return names
}

// refusesWatches makes the server refuse watches, and serve everything else.
func (s *storm) refusesWatches() {
	s.answers(func(request apiserver.Request) verdict {
		if request.Verb == "watch" {
			return status(forbidden())
		}
		return verdict{}
	})
}

// getLive checks that Gets with Live, one after the other, find that the objects are absent.
func (s *storm) getLive(names []string) {
	s.t.Helper()
	for _, name := range names {
		ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
		if _, err := s.secrets.GetWithOptions(ctx, namespace, name, objectcache.GetOptions{Live: true}); !apierrors.IsNotFound(err) {
			s.t.Errorf("Get with Live of %s: got %v, want NotFound", name, err)
		}
		cancel()
	}
}

// The stream of a large object breaks, and watches are refused from then on. A list of its metadata works: the object
// is polled.
func TestLargeObjectWhereWatchesAreRefused(t *testing.T) {
	inLargeBubble(t, func(t *testing.T, r *largeRig) {
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "watch" {
				return &forbidden().ErrStatus
			}
			return nil
		})
		r.server.CloseStreams(nil)
		status, _ := r.Status(namespace, r.names[0])
		for range 10000 {
			if status.Failures > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			status, _ = r.Status(namespace, r.names[0])
		}
		if status.Stream != objectcache.StreamPolled {
			t.Errorf("got %+v, want an object that is polled", status)
		}
	})
}
