// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// unwatchable are the ways in which a server or a proxy fails watches and serves lists: a
// proxy that waits for the end of an answer serves no watch in time.
var unwatchable = map[string]*apierrors.StatusError{
	"500": apierrors.NewInternalError(errors.New("no watches")),
	"503": unavailable(),
	"504": apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "get", corev1.Resource("secrets"), "", "", 0, true),
	"429": apierrors.NewTooManyRequests("slow down", 1),
}

// Where watches fail and lists work, all objects are served by lists, new ones too. The
// objects are listed again, at a bounded pace, Status shows that, and the streams open
// once watches work.
func TestWatchesFailAndListsWork(t *testing.T) {
	crowd(t)
	for name, err := range unwatchable {
		t.Run(name, func(t *testing.T) {
			inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
				s.answers(func(request apiserver.Request) verdict {
					if request.Verb == "watch" {
						return status(err)
					}
					return verdict{}
				})
				names := s.references(1000, "tls")
				time.Sleep(10 * time.Second)
				if got := s.read(names); got != len(names) {
					t.Errorf("read after 10 s: got %d of %d", got, len(names))
				}
				s.getAll(s.references(1, "new"), 5*time.Second, "Get of a new object")
				s.reset()
				time.Sleep(time.Minute)
				if all, _ := s.requests(); all < 500 || all > 3*20*60 {
					t.Errorf("requests in a minute: got %d, want some, and at most 20 lists and 40 watches a second", all)
				}
				if got := s.countStatus(func(o objectcache.Status) bool {
					return o.Stream == objectcache.StreamPolled && isUpdated(o) && o.LastError != nil
				}); got != 1001 {
					t.Errorf("objects that Status shows as polled, with the cause: got %d of 1,001", got)
				}
				s.answers(nil)
				time.Sleep(2 * time.Minute)
				if got := s.countStatus(isUpdated); got != 1001 {
					t.Errorf("watching 2 minutes after watches work: got %d of 1,001", got)
				}
			})
		})
	}
}

// The same where watches worked before.
func TestWatchesFailLater(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		names := s.references(1000, "tls")
		time.Sleep(10 * time.Second)
		s.answers(func(request apiserver.Request) verdict {
			if request.Verb == "watch" {
				return status(unavailable())
			}
			return verdict{}
		})
		s.server.CloseStreams(nil)
		cut := time.Now()
		time.Sleep(3 * time.Minute)
		late := s.countStatus(func(o objectcache.Status) bool { return !o.LastContact.After(cut) })
		if late > 0 {
			t.Errorf("objects that were not read in 3 minutes after the cut: got %d of %d", late, len(names))
		}
		s.answers(nil)
		time.Sleep(2 * time.Minute)
		if got := s.countStatus(isUpdated); got != len(names) {
			t.Errorf("watching 2 minutes after watches work: got %d of %d", got, len(names))
		}
	})
}

// A server that fails some requests of all kinds, as one bad server of three behind a
// balancer does, is not taken for one without watches: few of the
// objects are listed.
func TestSomeRequestsFailAndWatchesWork(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		count, lists := 0, 0
		s.answers(func(request apiserver.Request) verdict {
			s.mu.Lock()
			defer s.mu.Unlock()
			if request.Verb == "list" {
				lists++
			}
			if count++; count%3 == 0 {
				return status(unavailable())
			}
			return verdict{}
		})
		names := s.references(1000, "tls")
		time.Sleep(30 * time.Second)
		if got := s.read(names); got != len(names) {
			t.Errorf("read after 30 s: got %d of %d", got, len(names))
		}
		if lists > len(names)/5 {
			t.Errorf("lists: got %d for %d objects, want few", lists, len(names))
		}
		if got := s.countStatus(isUpdated); got != len(names) {
			t.Errorf("watching: got %d of %d", got, len(names))
		}
	})
}

// A proxy without a time-out of its own, which waits for the end of an answer before it
// forwards the first byte, answers no watch. Objects that Gets wait for are soon served by
// lists, and in the end all are.
func TestWatchesHangAndListsWork(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(func(request apiserver.Request) verdict { return verdict{hangs: request.Verb == "watch"} })
		names := s.references(1000, "tls")
		s.getAll(names[:20], 2*time.Minute, "Get of an object")
		time.Sleep(5 * time.Minute)
		if got := s.read(names); got != len(names) {
			t.Errorf("read after 7 minutes: got %d of %d", got, len(names))
		}
	})
}

// A server behind a balancer that answers with 503 is no reason for a storm of requests
// with a token that the others refuse, also for a program with a single object.
func TestInvalidTokenAtServersOfWhichOneFails(t *testing.T) {
	for _, n := range []int{1, 2, 10, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
				var count atomic.Int64
				s.answers(func(apiserver.Request) verdict {
					if count.Add(1)%3 == 0 {
						return status(unavailable())
					}
					return status(apierrors.NewUnauthorized("expired"))
				})
				s.references(n, "tls")
				time.Sleep(time.Minute)
				s.reset()
				time.Sleep(time.Minute)
				if all, _ := s.requests(); all > 2*60 {
					t.Errorf("requests in a minute: got %d, want at most 2 a second", all)
				}
			})
		})
	}
}
