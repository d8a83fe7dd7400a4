// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// unwatchable are the ways in which a server or a proxy fails watches and serves lists: a
// proxy that waits for the end of an answer serves no watch in time.
var unwatchable = map[string]*apierrors.StatusError{
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
		objects := 200
		switch {
		case testmain.Race && name != "503":
			continue
		case name == "503" && !testmain.Race:
			objects = 1000
		}
		t.Run(name, func(t *testing.T) {
			inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
				s.answers(func(request apiserver.Request) verdict {
					if request.Verb == "watch" {
						return status(err)
					}
					return verdict{}
				})
				names := s.references(objects, "tls")
				time.Sleep(10 * time.Second)
				if got := s.read(names); got != len(names) {
					t.Errorf("read after 10 s: got %d of %d", got, len(names))
				}
				s.getAll(s.references(1, "new"), 5*time.Second, "Get of a new object")
				s.reset()
				time.Sleep(30 * time.Second)
				if all, _ := s.requests(); all < 250 || all > 3*20*30 {
					t.Errorf("requests in half a minute: got %d, want some, and at most 20 lists and 40 watches a second", all)
				}
				if got := s.countStatus(func(o objectcache.Status) bool {
					return o.Stream == objectcache.StreamPolled && isUpdated(o) && o.LastError != nil
				}); got != objects+1 {
					t.Errorf("objects that Status shows as polled, with the cause: got %d of %d", got, objects+1)
				}
				s.answers(nil)
				time.Sleep(2 * time.Minute)
				if got := s.countStatus(isUpdated); got != objects+1 {
					t.Errorf("watching 2 minutes after watches work: got %d of %d", got, objects+1)
				}
			})
		})
	}
}

// A proxy without a time-out of its own, which waits for the end of an answer before it
// forwards the first byte, answers no watch. Objects that Gets wait for are soon served by
// lists, and in the end all are.
func TestWatchesHangAndListsWork(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		s.answers(func(request apiserver.Request) verdict { return verdict{hangs: request.Verb == "watch"} })
		names := s.references(300, "tls")
		s.getAll(names[:20], 2*time.Minute, "Get of an object")
		time.Sleep(5 * time.Minute)
		if got := s.read(names); got != len(names) {
			t.Errorf("read after 7 minutes: got %d of %d", got, len(names))
		}
	})
}
