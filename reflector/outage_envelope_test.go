// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/reflector"
)

// Streams that end all at once are all opened again fast: none has failed.
func TestMassCutReturnsFast(t *testing.T) {
	for name, why := range map[string]error{"regular end": nil, "reset": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				all := append(c.comes(500, "secrets"), c.comes(500, "configmaps")...)
				for range 3 {
					after(30 * time.Second)
					began := time.Now()
					c.cut(nil, why)
					after(10 * time.Second)
					c.fresh(all, began, 3*time.Second, "streams that ended")
				}
			})
		})
	}
}

// An outage is noticed as one, probed, and over soon after it is.
func TestOutageOfAMinute(t *testing.T) {
	for name, err := range map[string]error{"refused": errDown, "503": apierrors.NewServiceUnavailable("starting"), "500": unreadable()} {
		for _, awaited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, awaited: %v", name, awaited), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { outageOfAMinute(t, err, awaited) })
			})
		}
	}
}

func outageOfAMinute(t *testing.T, err error, awaited bool) {
	c := newCrowd(t, reflector.GateOptions{})
	all := append(c.comes(500, "secrets"), c.comes(500, "configmaps")...)
	after(30 * time.Second)
	if awaited {
		c.wants(all, 500*time.Millisecond)
	}
	c.treatAll(says(err))
	c.forget()
	c.cut(nil, nil)
	after(time.Minute)
	asks := c.requests(-1)
	first := 0 // attempts of before
	for first < len(asks) && asks[first].at.Sub(asks[0].at) < 50*time.Millisecond {
		first++
	}
	if first > 64 { // 32, and those that followed the first to fail, of each kind
		t.Errorf("attempts before the server was known to be down: got %d, want at most 64", first)
	}
	for kind := range 2 { // which has probes of its own if the server answers
		for _, gap := range gapsOf(c.ofKind(asks[first:], kind, errors.Is(err, errDown))) {
			if gap < 250*time.Millisecond-usually || gap > 5*time.Second+2*usually {
				t.Errorf("probe: got it %v after the last, want 0.25 to 5 s", gap)
			}
		}
	}
	if cause := c.gate.Status().Cause; cause == nil {
		t.Error("gate: got no cause, want the outage's")
	}
	c.treatAll(well)
	began := time.Now()
	after(20 * time.Second)
	c.fresh(all, began, 10*time.Second, "all when the server is back")
	if cause := c.gate.Status().Cause; cause != nil {
		t.Errorf("gate: got cause %v, want none", cause)
	}
}

// ofKind returns the requests of the members of a kind, 500 each, or all.
func (c *crowd) ofKind(asks []ask, kind int, all bool) (some []ask) {
	for _, a := range asks {
		if all || a.id/500 == kind {
			some = append(some, a)
		}
	}
	return some
}

// A server that is overloaded asks everybody for patience, and is given it.
func TestOverloadedServer(t *testing.T) {
	for _, seconds := range []int{1, 5, 30} {
		t.Run(fmt.Sprintf("Retry-After %d", seconds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				all := append(c.comes(500, "secrets"), c.comes(500, "configmaps")...)
				after(30 * time.Second)
				c.wants(all[:500], 500*time.Millisecond)
				c.treatAll(says(throttled(seconds)))
				c.forget()
				c.cut(nil, nil)
				after(5 * time.Second)
				early := len(c.requests(-1))
				after(2 * time.Minute)
				late := len(c.requests(-1)) - early
				t.Logf("requests: %d in 5 s, %d in the 2 min after them", early, late)
				if early > 100 {
					t.Errorf("requests in the first 5 s: got %d, want those that could not know", early)
				}
				// Retry-After binds the member; the resource is probed by others.
				if most := 30 + 4*120/seconds + 2*120/4; late > most {
					t.Errorf("requests in 2 min: got %d, want at most %d", late, most)
				}
				wait := time.Duration(seconds) * time.Second
				for _, id := range all {
					for _, gap := range gapsOf(c.requests(id)) {
						if gap < wait {
							t.Fatalf("member %d: got a request %v after the last, want its Retry-After honoured", id, gap)
						}
					}
				}
				c.treatAll(well)
				began := time.Now()
				after(wait*3/2 + 20*time.Second)
				c.fresh(all, began, wait*3/2+10*time.Second, "all when they are served again")
			})
		})
	}
}
