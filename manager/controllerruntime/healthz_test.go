// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// statuses are those of a store that a test makes up.
type statuses []objectcache.Status

func (s *statuses) Statuses() iter.Seq[objectcache.Status] { return slices.Values(*s) }

// The check fails if no object can be read for the grace, and has the cause. An object that is refused, whose kind is
// not served, or that is absent without a request does not count.
func TestHealthz(t *testing.T) {
	outage, unauthorized := errors.New("etcd is away"), apierrors.NewUnauthorized("no token")
	failing := func(cause error) objectcache.Status {
		return objectcache.Status{Phase: objectcache.PhaseFailing, LastError: cause, Failures: 1}
	}
	absent := func(reason objectcache.Reason) objectcache.Status {
		return objectcache.Status{Phase: objectcache.PhaseAbsent, Reason: reason, Synced: true}
	}
	serving, known, invalid, notSelected := objectcache.Status{Phase: objectcache.PhaseServing}, absent(""), absent(objectcache.ReasonInvalidName), absent(objectcache.ReasonNotSelected)
	missed := objectcache.Status{Phase: objectcache.PhaseServing, LastError: outage, Failures: 1, NotUpdatedSince: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		statuses statuses
		want     error
	}{
		"nothing referenced":        {nil, nil},
		"all well":                  {statuses{serving, known}, nil},
		"all forbidden":             {statuses{failing(apierrors.NewForbidden(corev1.Resource("secrets"), "one", nil))}, nil},
		"not served":                {statuses{failing(&resource.NotServedError{})}, nil},
		"one fails":                 {statuses{failing(outage), serving}, nil},
		"all fail":                  {statuses{failing(outage), failing(outage)}, outage},
		"all fail, one from memory": {statuses{missed, failing(outage)}, outage},
		"unauthorized":              {statuses{failing(unauthorized)}, unauthorized},
		"no answer":                 {statuses{{Phase: objectcache.PhaseSyncing}}, objectcache.ErrNoAnswer},
		"a name that cannot exist":  {statuses{invalid}, nil},
		"that first":                {statuses{invalid, failing(outage)}, outage},
		"that last":                 {statuses{failing(outage), invalid}, outage},
		"beside one not selected":   {statuses{notSelected, failing(outage), notSelected}, outage},
	} {
		synctest.Test(t, func(t *testing.T) {
			check := controllerruntime.Healthz(&test.statuses, controllerruntime.HealthzOptions{})
			forever := controllerruntime.Healthz(&test.statuses, controllerruntime.HealthzOptions{Grace: -1})
			if err := errors.Join(check(nil), forever(nil)); err != nil {
				t.Errorf("%s: within the grace: got %v", name, err)
			}
			time.Sleep(time.Minute)
			if err := check(nil); !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", name, err, test.want)
			}
			if err := forever(nil); err != nil {
				t.Errorf("%s: without an end of the grace: got %v", name, err)
			}
		})
	}
	for _, source := range []controllerruntime.Statuses{nil, (*controllerruntime.Cache)(nil)} {
		if err := controllerruntime.Healthz(source, controllerruntime.HealthzOptions{})(nil); err == nil || !strings.Contains(err.Error(), "source") {
			t.Errorf("%T: got %v, want an error", source, err)
		}
	}
}

// The check of a cache fails after the grace, and no longer when the server answers again.
func TestHealthzOfACache(t *testing.T) {
	for want, fault := range map[string]func(*apiserver.Server){
		"etcd is away": func(s *apiserver.Server) {
			s.Intercept(func(context.Context, apiserver.Request) *metav1.Status {
				return &apierrors.NewInternalError(errors.New("etcd is away")).ErrStatus
			})
		},
		"look for a proxy": func(s *apiserver.Server) {
			s.Wrap(func(w http.ResponseWriter, _ *http.Request, _ apiserver.Request, _ http.HandlerFunc) {
				http.Error(w, "default backend", http.StatusNotFound)
			})
		},
		"no answer from the server": func(s *apiserver.Server) {
			s.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status { <-ctx.Done(); return nil })
		},
	} {
		inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
			check := controllerruntime.Healthz(r.cache.(*controllerruntime.Cache), controllerruntime.HealthzOptions{})
			_ = r.cache.Get(t.Context(), keyOfOne, &corev1.ConfigMap{}) // the discovery
			fault(r.server)
			_, _ = r.get("one")
			time.Sleep(20 * time.Second)
			if err := check(nil); err != nil {
				t.Errorf("%s: within the grace: got %v", want, err)
			}
			time.Sleep(2 * time.Minute)
			if err := check(nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
			r.server.Intercept(nil)
			r.server.Wrap(nil)
			time.Sleep(2 * time.Minute) // an attempt may be under way
			if err := check(nil); err != nil {
				t.Errorf("%s: after the failure: got %v", want, err)
			}
		})
	}
}

// The grace begins anew after a check that found a readable object.
func TestHealthzGraceBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &statuses{{Phase: objectcache.PhaseFailing, LastError: errors.New("etcd is away")}}
		check := controllerruntime.Healthz(source, controllerruntime.HealthzOptions{})
		steps := []struct {
			after time.Duration // after the step before
			phase objectcache.Phase
			fails bool
		}{
			{0, objectcache.PhaseFailing, false},
			{40 * time.Second, objectcache.PhaseServing, false},
			{10 * time.Second, objectcache.PhaseFailing, false},
			{59 * time.Second, objectcache.PhaseFailing, false},
			{time.Second, objectcache.PhaseFailing, true},
		}
		for i, step := range steps {
			time.Sleep(step.after)
			(*source)[0].Phase = step.phase
			if err := check(nil); (err != nil) != step.fails {
				t.Errorf("check %d: got %v, want an error: %v", i, err, step.fails)
			}
		}
	})
}
