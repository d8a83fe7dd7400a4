// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// statuses are those of a store that a test makes up.
type statuses []objectcache.Status

func (s *statuses) Statuses() iter.Seq[objectcache.Status] { return slices.Values(*s) }

// A kind that the server does not serve fails no check, and rejected credentials do.
func TestHealthzCauses(t *testing.T) {
	tests := map[string]struct {
		cause error
		fails bool
	}{
		"not served":   {&resource.NotServedError{}, false},
		"unauthorized": {apierrors.NewUnauthorized("no token"), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &statuses{{Phase: objectcache.PhaseFailing, LastError: test.cause}}
				check := controllerruntime.Healthz(source, controllerruntime.HealthzOptions{})
				_ = check(nil)
				time.Sleep(time.Minute)
				if err := check(nil); test.fails && !errors.Is(err, test.cause) || !test.fails && err != nil {
					t.Errorf("got %v, want an error: %v", err, test.fails)
				}
			})
		})
	}
}

// An object that is known to be absent without a request does not show that objects can be read.
func TestHealthzOfObjectsThatAreAbsentForGood(t *testing.T) {
	for _, reason := range []objectcache.Reason{objectcache.ReasonInvalidName, objectcache.ReasonNotSelected} {
		synctest.Test(t, func(t *testing.T) {
			outage := errors.New("etcd is away")
			absent := objectcache.Status{Phase: objectcache.PhaseAbsent, Reason: reason, Synced: true}
			failing := objectcache.Status{Phase: objectcache.PhaseFailing, LastError: outage}
			for name, source := range map[string]*statuses{"first": {absent, failing}, "last": {failing, absent}, "alone": {absent}} {
				check := controllerruntime.Healthz(source, controllerruntime.HealthzOptions{})
				_ = check(nil)
				time.Sleep(time.Minute)
				if err := check(nil); errors.Is(err, outage) != (name != "alone") {
					t.Errorf("%s, %s: got %v, want the outage unless it is alone", reason, name, err)
				}
			}
		})
	}
}

// With a negative grace no check fails.
func TestHealthzWithoutAnEndOfGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &statuses{{Phase: objectcache.PhaseFailing, LastError: errors.New("etcd is away")}}
		check := controllerruntime.Healthz(source, controllerruntime.HealthzOptions{Grace: -1})
		for range 3 {
			if err := check(nil); err != nil {
				t.Errorf("got %v, want none", err)
			}
			time.Sleep(100 * time.Hour)
		}
	})
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
