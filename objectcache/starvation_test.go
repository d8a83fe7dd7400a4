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

// refusing answers objects with a prefix with an error.
func refusing(prefix string, err *apierrors.StatusError) func(apiserver.Request) verdict {
	return func(request apiserver.Request) verdict {
		if strings.HasPrefix(request.Name, prefix) {
			return status(err)
		}
		return verdict{}
	}
}

// Gets of refused objects, however many, are not many requests.
func TestGetsOfForbiddenObjectsAreFewRequests(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(refusing("bad", forbidden()))
		s.references(800, "good")
		bad := s.references(200, "bad")
		ctx, enough := context.WithCancel(t.Context())
		s.loops(ctx, bad, 2*time.Second, 10*time.Millisecond)
		time.Sleep(10 * time.Second) // a fresh binding may be asked for more often
		s.forget()
		time.Sleep(10 * time.Second)
		all, most := s.requests()
		t.Logf("requests in 10 s: %d, %d of one object", all, most)
		if most > 10 {
			t.Errorf("requests in 10 s: got %d, %d of one object, want at most 1 a second of each", all, most)
		}
		s.answers(nil)
		time.Sleep(2 * time.Second)
		if got := s.known(bad); got != 200 {
			t.Errorf("served 2 s after the grant: got %d, want all 200", got)
		}
		enough()
	})
}

// A Get that comes while a fresh refusal is known is answered with it.
func TestFreshRefusalAnswersGetAtOnce(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(refusing("bad", forbidden()))
		bad := s.references(1, "bad")[0]
		ctx, enough := context.WithCancel(t.Context())
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
		if late > 5 { // these may find that it is time for another attempt
			t.Errorf("Get beside others: got %d of 50 that took longer than 100 ms, want the refusal that is known", late)
		}
		enough()
	})
}

// With a dead token the server and the client have peace, however many Gets
// there are, and all is well soon after the token is.
func TestDeadTokenIsNoStormOfGets(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(refusing("", apierrors.NewUnauthorized("expired")))
		names := s.references(1000, "tls")
		ctx, enough := context.WithCancel(t.Context())
		s.loops(ctx, names, 5*time.Second, 100*time.Millisecond)
		time.Sleep(5 * time.Second)
		s.forget()
		time.Sleep(10 * time.Second)
		all, _ := s.requests()
		dials := s.dials.Load()
		t.Logf("in 10 s: %d requests, %d dials", all, dials)
		if all > 50 || dials > 20 {
			t.Errorf("in 10 s: got %d requests and %d dials, want at most 5 and 2 a second", all, dials)
		}
		s.answers(nil)
		time.Sleep(8 * time.Second)
		if got := s.known(names); got != 1000 {
			t.Errorf("served 8 s after the token is good: got %d, want all 1,000", got)
		}
		enough()
	})
}

// Gets of new healthy objects do not wait for bad ones, of whatever kind.
func TestGetsDoNotWaitForBadObjects(t *testing.T) {
	unreadable := apierrors.NewInternalError(errors.New("cannot be decrypted"))
	tests := map[string][]verdict{
		"unreadable": {status(unreadable)},
		"hang":       {{hangs: true}},
		"forbidden":  {status(forbidden())},
		"throttled":  {status(apierrors.NewTooManyRequests("slow down", 30))},
		"all of it":  {status(unreadable), {hangs: true}, status(forbidden()), status(apierrors.NewTooManyRequests("slow down", 30))},
	}
	for name, answers := range tests {
		t.Run(name, func(t *testing.T) {
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
				ctx, enough := context.WithCancel(t.Context())
				s.loops(ctx, bad[:50], 2*time.Second, 100*time.Millisecond)
				time.Sleep(20 * time.Second)
				for i := range 10 {
					s.all(s.references(1, fmt.Sprintf("new-%d", i)), time.Second, "Get of a new object")
					time.Sleep(2 * time.Second)
				}
				enough()
			})
		})
	}
}

// A kind that is throttled holds up no other one on the same gate.
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
			s.all(s.references(1, fmt.Sprintf("new-%d", i)), time.Second, "Get of a new Secret")
			time.Sleep(5 * time.Second)
		}
		s.all(names, time.Second, "Get of a Secret that was referenced at first")
	})
}

// Status does not say Watching where there is no stream: not in the pause after
// one, and not while the gate is busy.
func TestPhaseWithoutAStreamIsNotWatching(t *testing.T) {
	tests := map[string]func(apiserver.Request) verdict{
		"pause":        nil,
		"busy gate":    func(apiserver.Request) verdict { return verdict{hangs: true} },
		"refused":      refusing("tls", forbidden()),
		"out of reach": refusing("", unavailable()),
	}
	for name, answers := range tests {
		t.Run(name, func(t *testing.T) {
			inStorm(t, objectcache.GateOptions{Opens: 1}, func(t *testing.T, s *storm) {
				names := s.references(20, "tls")
				time.Sleep(5 * time.Second)
				s.answers(answers)
				s.references(2, "other") // takes the gate where requests hang
				time.Sleep(10 * time.Millisecond)
				s.server.CloseStreams(func(request apiserver.Request) bool { return strings.HasPrefix(request.Name, "tls") })
				wrong := map[objectcache.Phase]int{}
				for range 400 {
					synctest.Wait()
					for _, name := range names {
						got, _ := s.secrets.Status(namespace, name)
						if open := s.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: name}); open == 0 && got.Phase == objectcache.Watching {
							wrong[got.Phase]++
						}
					}
					time.Sleep(20 * time.Millisecond)
				}
				if len(wrong) > 0 {
					t.Errorf("without a stream: got %v of %d looks, want no Watching", wrong, 400*len(names))
				}
			})
		})
	}
}

// Callers that ask for refused objects again and again do not keep a healthy
// stream from being opened again.
func TestCallersOfRefusedObjectsStarveNoStream(t *testing.T) {
	inStorm(t, objectcache.GateOptions{Opens: 8}, func(t *testing.T, s *storm) {
		s.answers(refusing("bad", forbidden()))
		good := s.references(300, "good")
		bad := s.references(300, "bad")
		time.Sleep(10 * time.Second)
		ctx, enough := context.WithCancel(t.Context())
		s.loops(ctx, bad, 50*time.Millisecond, 10*time.Millisecond)
		time.Sleep(5 * time.Second)
		s.server.CloseStreams(func(request apiserver.Request) bool { return request.Name == good[7] || request.Name == good[200] })
		time.Sleep(5 * time.Second)
		for _, name := range []string{good[7], good[200]} {
			if open := s.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: name}); open != 1 {
				got, _ := s.secrets.Status(namespace, name)
				t.Errorf("%s: got %d streams 5 s after the last ended, and phase %s; want one", name, open, got.Phase)
			}
		}
		enough()
	})
}
