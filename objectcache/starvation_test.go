// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

func status(err *apierrors.StatusError) verdict { return verdict{status: &err.ErrStatus} }

// refusing answers requests for objects with a prefix with an error.
func refusing(prefix string, err *apierrors.StatusError) func(apiserver.Request) verdict {
	return func(request apiserver.Request) verdict {
		if strings.HasPrefix(request.Name, prefix) {
			return status(err)
		}
		return verdict{}
	}
}

// Many Gets of refused objects cause few requests.
func TestGetsOfForbiddenObjectsAreFewRequests(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(refusing("bad", forbidden()))
		s.references(900, "good")
		bad := s.references(100, "bad")
		ctx, stop := context.WithCancel(t.Context())
		s.loops(ctx, bad, 2*time.Second, 50*time.Millisecond)
		time.Sleep(10 * time.Second) // new objects are requested more often at first
		s.reset()
		time.Sleep(10 * time.Second)
		all, most := s.requests()
		t.Logf("requests in 10 s: %d, %d of one object", all, most)
		if most > 10 {
			t.Errorf("requests in 10 s: got %d, %d of one object, want at most 1 a second of each", all, most)
		}
		s.answers(nil)
		time.Sleep(2 * time.Second)
		if got := s.read(bad); got != 100 {
			t.Errorf("synced 2 s after the grant: got %d, want all 100", got)
		}
		stop()
	})
}

// Get returns a recent refusal at once.
func TestGetReturnsARecentRefusalAtOnce(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(refusing("bad", forbidden()))
		bad := s.references(1, "bad")[0]
		ctx, stop := context.WithCancel(t.Context())
		s.loops(ctx, []string{bad}, 5*time.Second, 10*time.Millisecond)
		time.Sleep(10 * time.Second)
		late := 0
		for range 50 {
			_, took, err := s.get(t.Context(), bad, 5*time.Second)
			if !apierrors.IsForbidden(err) || !errors.Is(err, objectcache.ErrNotSynced) {
				t.Fatalf("Get: got %v, want ErrNotSynced and the refusal", err)
			}
			if took > 100*time.Millisecond {
				late++
			}
			time.Sleep(70 * time.Millisecond)
		}
		if late > 5 { // some may wait for another attempt
			t.Errorf("Gets that took longer than 100 ms: got %d of 50, want at most 5", late)
		}
		stop()
	})
}

// With an expired token many Gets cause few requests. All objects sync soon after the
// token is valid again.
func TestGetsWithAnExpiredToken(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(refusing("", apierrors.NewUnauthorized("expired")))
		names := s.references(1000, "tls")
		ctx, stop := context.WithCancel(t.Context())
		s.loops(ctx, names, 5*time.Second, 500*time.Millisecond)
		time.Sleep(5 * time.Second)
		s.reset()
		time.Sleep(10 * time.Second)
		all, _ := s.requests()
		dials := s.dials.Load()
		t.Logf("in 10 s: %d requests, %d dials", all, dials)
		if all > 50 || dials > 20 {
			t.Errorf("in 10 s: got %d requests and %d dials, want at most 5 and 2 a second", all, dials)
		}
		s.answers(nil)
		time.Sleep(8 * time.Second)
		if got := s.read(names); got != 1000 {
			t.Errorf("synced 8 s after the token is valid: got %d, want all 1,000", got)
		}
		stop()
	})
}

// Gets of new objects do not wait for objects that fail, for whatever reason.
func TestGetsDoNotWaitForBadObjects(t *testing.T) {
	crowd(t)
	unreadable := apierrors.NewInternalError(errors.New("cannot be decrypted"))
	answers := []verdict{status(unreadable), {hangs: true}, status(forbidden()), status(apierrors.NewTooManyRequests("slow down", 30))}
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(func(request apiserver.Request) verdict {
			var id int
			if n, _ := fmt.Sscanf(request.Name, "bad-%d", &id); n == 1 {
				return answers[id%len(answers)]
			}
			return verdict{}
		})
		s.references(600, "good")
		bad := s.references(100, "bad")
		s.references(300, "more")
		ctx, stop := context.WithCancel(t.Context())
		s.loops(ctx, bad[:50], 2*time.Second, 100*time.Millisecond)
		time.Sleep(20 * time.Second)
		for i := range 10 {
			s.getAll(s.references(1, fmt.Sprintf("new-%d", i)), time.Second, "Get of a new object")
			time.Sleep(2 * time.Second)
		}
		stop()
	})
}

// A throttled resource does not delay other resources with the same gate.
func TestGetsDoNotWaitForAThrottledKind(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(func(request apiserver.Request) verdict {
			if request.Resource == "configmaps" {
				return status(apierrors.NewTooManyRequests("the watch cache is not ready", 30))
			}
			return verdict{}
		})
		var names []string
		for i := range 100 {
			s.configMaps.AddReference(namespace, fmt.Sprintf("config-%d", i), "pod")
			names = append(names, s.references(9, fmt.Sprintf("tls-%d", i))...)
		}
		time.Sleep(10 * time.Second)
		for i := range 10 {
			s.getAll(s.references(1, fmt.Sprintf("new-%d", i)), time.Second, "Get of a new Secret")
			time.Sleep(5 * time.Second)
		}
		s.getAll(names, time.Second, "Get of a Secret that was referenced at first")
	})
}

// An object whose stream has ended for more than 5 s is never served as if it had one, neither
// during the back-off nor while the gate is busy.
func TestPhaseWithoutAStreamIsNotWatching(t *testing.T) {
	tests := map[string]func(apiserver.Request) verdict{
		"back-off":    nil,
		"busy gate":   func(apiserver.Request) verdict { return verdict{hangs: true} },
		"refused":     refusing("tls", forbidden()),
		"unreachable": refusing("", unavailable()),
	}
	for name, answers := range tests {
		t.Run(name, func(t *testing.T) {
			inStorm(t, objectcache.GateOptions{Opens: 1}, func(t *testing.T, s *storm) {
				names := s.references(20, "tls")
				time.Sleep(5 * time.Second)
				s.answers(answers)
				s.references(2, "other") // occupies the gate if requests hang
				time.Sleep(10 * time.Millisecond)
				s.server.CloseStreams(func(request apiserver.Request) bool { return strings.HasPrefix(request.Name, "tls") })
				wrong, cut := map[objectcache.Phase]int{}, time.Now()
				for range 600 {
					synctest.Wait()
					for _, name := range names {
						got, _ := s.secrets.Status(namespace, name)
						if open := s.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: name}); open == 0 && isUpdated(got) && got.Reason == "" && time.Since(cut) > 5*time.Second {
							wrong[got.Phase]++
						}
					}
					time.Sleep(20 * time.Millisecond)
				}
				if len(wrong) > 0 {
					t.Errorf("without a stream: got %v in %d checks, want none", wrong, 600*len(names))
				}
			})
		})
	}
}

// Repeated Gets of refused objects do not delay the reopening of other streams.
func TestGetsOfRefusedObjectsDoNotDelayStreams(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{Opens: 8}, func(t *testing.T, s *storm) {
		s.answers(refusing("bad", forbidden()))
		good := s.references(300, "good")
		bad := s.references(100, "bad")
		time.Sleep(10 * time.Second)
		ctx, stop := context.WithCancel(t.Context())
		s.loops(ctx, bad, 50*time.Millisecond, 50*time.Millisecond)
		time.Sleep(5 * time.Second)
		s.server.CloseStreams(func(request apiserver.Request) bool { return request.Name == good[7] || request.Name == good[200] })
		time.Sleep(5 * time.Second)
		for _, name := range []string{good[7], good[200]} {
			if open := s.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: name}); open != 1 {
				got, _ := s.secrets.Status(namespace, name)
				t.Errorf("%s: got %d streams 5 s after the last ended, and phase %s; want one", name, open, got.Phase)
			}
		}
		stop()
	})
}
