// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
)

// A client far from its server opens many streams at a time: with 1.4 s for each answer, 5,000 are open within a
// minute.
func TestGateOpensManyWhereAnswersTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, taking(1400*time.Millisecond, healthy))
		all := c.add(5000, "secrets")
		after(time.Minute)
		c.wantSynced(all, time.Minute, "5,000 streams")
		if got := c.gate.Status().Cause; got != nil {
			t.Errorf("cause: got %v, want none: the server is far away, and well", got)
		}
	})
}

// A program with one object notices that the server is dead: two failures of its only reflector are an outage. The
// first answer ends it. A refusal is no outage.
func TestOutageWithOneReflector(t *testing.T) {
	tests := map[string]struct {
		fault behavior
		want  bool
	}{
		"connection refused": {failing(errDown), true}, "no answer": {hanging, true}, "403": {failing(forbidden()), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{}, healthy)
				one := c.add(1, "secrets")
				after(time.Minute)
				c.serveAll(test.fault)
				c.cutAll(nil)
				after(2 * time.Minute)
				got := c.gate.Status()
				if (got.Cause != nil) != test.want || errors.Is(got.Cause, errDown) && time.Since(got.CauseTime) > 10*time.Second {
					t.Errorf("status: got %+v, want a cause of the last seconds: %t", got, test.want)
				}
				c.serveAll(healthy)
				began := time.Now()
				after(90 * time.Second)
				c.wantRead(one, began, 80*time.Second, "the only one")
				if got := c.gate.Status(); got.Cause != nil || !got.CauseTime.IsZero() {
					t.Errorf("status when it is served: got %+v, want no cause", got)
				}
			})
		})
	}
}
