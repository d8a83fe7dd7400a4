// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/reflector"
)

func unauthorized() error { return apierrors.NewUnauthorized("the token has expired") }

// Whoever waits for a refused object, and however often, it is asked for less
// than once a second, and it is there soon after it is granted.
func TestForbiddenObjectsAreAskedForSeldom(t *testing.T) {
	for name, pace := range map[string]time.Duration{"every 10 ms": 10 * time.Millisecond, "every 500 ms": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				var all []int
				for i := range 1000 {
					all = append(all, i)
				}
				refused := every(5, 200, all)
				c.treat(refused, says(forbidden()))
				c.comes(1000, "secrets")
				c.wants(refused, pace)
				after(10 * time.Second) // a fresh binding may be asked for more often
				began := time.Now()
				after(20 * time.Second)
				total, each := c.rate(refused, began)
				t.Logf("requests a second: %.1f, %.2f of one object", total, each)
				if each > 1 {
					t.Errorf("requests a second: got %.1f in all, %.2f of one object; want less than 1 of each", total, each)
				}
				began = time.Now()
				c.treat(refused, nil)
				after(15 * time.Second)
				c.fresh(refused, began, 2*time.Second, "objects that are granted")
			})
		})
	}
}

// When nobody is let in, or nobody reaches the server, however many there are
// and however much they are waited for, the server has peace.
func TestNothingForAnybodyIsNoStorm(t *testing.T) {
	for name, err := range map[string]error{"dead token": unauthorized(), "down": errDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				all := append(c.comes(500, "secrets"), c.comes(500, "configmaps")...)
				after(20 * time.Second)
				c.treatAll(says(err))
				c.forget()
				c.cut(nil, nil)
				noStorm(t, c, all)
			})
		})
		t.Run(name+" from the start", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				c.treatAll(says(err))
				noStorm(t, c, append(c.comes(500, "secrets"), c.comes(500, "configmaps")...))
			})
		})
	}
}

// noStorm wants few requests of a crowd that nobody serves, and all of it served
// soon after it can be.
func noStorm(t *testing.T, c *crowd, all []int) {
	enough := c.wants(all, 200*time.Millisecond)
	after(5 * time.Second)
	if got := len(c.requests(-1)); got > 32+25 {
		t.Errorf("requests in the first five seconds: got %d, want at most those that could not know, and 5 a second", got)
	}
	began := time.Now()
	after(10 * time.Second)
	total, _ := c.rate(all, began)
	t.Logf("requests a second: %.1f", total)
	if total > 5 {
		t.Errorf("requests a second: got %.1f, want at most 5 in all", total)
	}
	c.treatAll(well)
	began = time.Now()
	after(15 * time.Second)
	enough()
	c.fresh(all, began, 8*time.Second, "all when they are served again")
}

// A hung request does not stop the probes, and so the return of the server is
// noticed by all whose own request does not hang.
func TestHungRequestsDoNotStopTheProbes(t *testing.T) {
	for name, hang := range map[string]func(down time.Duration, dice float64) bool{
		"1 in 10":               func(_ time.Duration, dice float64) bool { return dice < 0.1 },
		"2 in 3":                func(_ time.Duration, dice float64) bool { return dice < 0.67 },
		"all":                   func(time.Duration, float64) bool { return true },
		"all in the last 10 s":  func(down time.Duration, _ float64) bool { return down > 30*time.Second },
		"all in the first 20 s": func(down time.Duration, _ float64) bool { return down < 20*time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hangInAnOutage(t, hang) })
		})
	}
}

func hangInAnOutage(t *testing.T, hang func(down time.Duration, dice float64) bool) {
	c := newCrowd(t, reflector.GateOptions{})
	all := c.comes(1000, "secrets")
	after(20 * time.Second)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	hung := map[int]time.Time{}
	began := time.Now()
	c.treatAll(func(call call) reply {
		if hang(time.Since(began), random.Float64()) {
			hung[call.id] = time.Now()
			return hangs(call)
		}
		return says(errDown)(call)
	})
	c.cut(nil, nil)
	after(40 * time.Second)
	c.treatAll(well)
	began = time.Now()
	var stuck []int // in a request of before
	for id, since := range hung {
		if time.Since(since) < time.Minute {
			stuck = append(stuck, id)
		}
	}
	after(90 * time.Second)
	if len(stuck) > 100 {
		t.Errorf("requests that hang: got %d, want few: the server is down", len(stuck))
	}
	c.fresh(without(all, stuck), began, 15*time.Second, "all others")
	c.fresh(stuck, began, 80*time.Second, "those whose request hangs")
}

// One bad backend in three behind a balancer is not taken for an outage. Who
// meets it again and again by chance has pauses of its own.
func TestOneBadBackendInThree(t *testing.T) {
	const most = 3*1000*usually/32 + 15*time.Second
	tests := map[string]struct {
		fault     treatment
		most, all time.Duration
	}{
		"500":       {says(unreadable()), most, 45 * time.Second},
		"503":       {says(apierrors.NewServiceUnavailable("no endpoints")), most, 45 * time.Second},
		"refuses":   {says(errDown), most, 45 * time.Second},
		"hangs 5 s": {taking(10*time.Second, says(io.ErrUnexpectedEOF)), 45 * time.Second, time.Minute},
	}
	for name, test := range tests {
		for _, turns := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in rotation: %v", name, turns), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrowd(t, reflector.GateOptions{})
					random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same each time
					c.treatAll(func(call call) reply {
						if turns && call.number%3 == 0 || !turns && random.IntN(3) == 0 {
							return test.fault(call)
						}
						return well(call)
					})
					all := c.comes(1000, "secrets")
					after(2 * time.Minute)
					c.nearly(all, time.Time{}, test.most, test.all, "start")
					began := time.Now()
					c.cut(nil, nil)
					after(2 * time.Minute)
					c.nearly(all, began, test.most, test.all, "return")
				})
			})
		}
	}
}

// A refusal that is over does not slow what comes after it.
func TestCutSoonAfterALongRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{})
		var all []int
		for i := range 1000 {
			all = append(all, i)
		}
		refused := every(10, 100, all)
		c.treat(refused, says(forbidden()))
		c.comes(1000, "secrets")
		after(5 * time.Minute)
		began := time.Now()
		for _, id := range refused {
			first := true
			c.treat([]int{id}, func(call call) reply {
				how := well(call)
				if first {
					first, how.lives = false, time.Second
				}
				return how
			})
		}
		after(time.Minute)
		c.fresh(refused, began, 20*time.Second, "objects that are granted")
		late := 0
		var longest time.Duration
		for _, id := range refused {
			synced, _ := c.members[id].read(began)
			again, ok := c.members[id].read(synced.Add(time.Second))
			stale := again.Sub(synced.Add(time.Second))
			if longest = max(longest, stale); !ok || stale > 1500*time.Millisecond {
				late++
			}
		}
		t.Logf("stale for %v at most", longest)
		if late > 0 {
			t.Errorf("after the cut: got %d of 100 late, the last after %v, want all within 1.5 s", late, longest)
		}
	})
}
