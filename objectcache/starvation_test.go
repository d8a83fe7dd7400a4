// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
		names := s.references(fewer(1000), "tls")
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
		if got := s.read(names); got != len(names) {
			t.Errorf("synced 8 s after the token is valid: got %d, want all %d", got, len(names))
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
