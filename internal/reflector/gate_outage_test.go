// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/reflector"
)

// beforeProbes returns how many requests began before the outage was detected: within
// 50 ms of the first one.
func beforeProbes(requests []request) (n int) {
	for n < len(requests) && requests[n].at.Sub(requests[0].at) < 50*time.Millisecond {
		n++
	}
	return n
}

// One answer of the server, whatever it is, ends the outage for all at once.
func TestAllFollowAnAnsweredProbe(t *testing.T) {
	answers := map[string]error{
		"synced": nil, "401": unauthorized(), "403": forbidden(), "404": apierrors.NewNotFound(resource, ""),
		"410": apierrors.NewResourceExpired("too old"), "too large": tooLarge(),
	}
	type test struct {
		err error
		n   int
	}
	tests := map[string]test{}
	for name, err := range answers {
		tests[name+", 100"], tests[name+", 5"] = test{err, 100}, test{err, 5}
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(errDown))
		c.add(test.n, "secrets")
		after(5 * time.Minute)
		answered := make(chan struct{})
		c.serveAll(func(c call) answer {
			select {
			case <-answered:
				return atOnce(nil)(c)
			default:
				close(answered)
				return atOnce(test.err)(c)
			}
		})
		<-answered
		synctest.Wait()
		want := test.n
		if test.err != nil {
			want-- // the one with the answer has a pause of its own, which is its first
		}
		if got := c.synced(); got < want {
			t.Errorf("synced at the moment of the answer: got %d, want %d", got, want)
		}
		if got := c.gate.Status(); got.Cause != nil || !got.CauseTime.IsZero() {
			t.Errorf("status: got %+v, want no outage", got)
		}
		after(2 * time.Second) // "Too large resource version" asks to wait for a second
		if got := c.synced(); got != test.n {
			t.Errorf("synced 2 s later: got %d, want all", got)
		}
	})
}

// An outage is detected, probed, and over soon after the server is back.
func TestOutageOfAMinute(t *testing.T) {
	type test struct {
		err    error
		waited bool // callers wait
	}
	tests := map[string]test{}
	for name, err := range map[string]error{"no connection": errDown, "503": unavailable(), "500": unreadable()} {
		tests[name], tests[name+", callers wait"] = test{err, false}, test{err, true}
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		secrets, configMaps := c.add(150, "secrets"), c.add(150, "configmaps")
		all := append(slices.Clone(secrets), configMaps...)
		after(30 * time.Second)
		if test.waited {
			c.retryEvery(500*time.Millisecond, all)
		}
		c.serveAll(failing(test.err))
		c.forget()
		c.cutAll(nil)
		after(time.Minute)
		if got := beforeProbes(c.seen()); got > 64 { // 32, and those that followed the first to fail, of each resource
			t.Errorf("attempts before the outage was detected: got %d, want at most 64", got)
		}
		probed := [][]int{secrets, configMaps} // apart, if the server answers
		if errors.Is(test.err, errDown) {
			probed = [][]int{all}
		}
		probes := c.seen()[beforeProbes(c.seen()):]
		for _, ids := range probed {
			of := slices.DeleteFunc(slices.Clone(probes), func(r request) bool { return !slices.Contains(ids, r.id) })
			for _, gap := range gaps(of) {
				if gap < 250*time.Millisecond-usually || gap > 5*time.Second+2*usually {
					t.Errorf("probe: got it %v after the last, want 0.25 to 5 s", gap)
				}
			}
		}
		if cause := c.gate.Status().Cause; cause == nil {
			t.Error("gate: got no cause, want that of the outage")
		}
		c.serveAll(healthy)
		began := time.Now()
		after(20 * time.Second)
		c.wantRead(all, began, 10*time.Second, "all when the server is back")
		if cause := c.gate.Status().Cause; cause != nil {
			t.Errorf("gate: got cause %v, want none", cause)
		}
	})
}

// An overloaded server that answers 429 with a Retry-After gets few requests.
func TestOverloadedServer(t *testing.T) {
	eachCase(t, map[string]int{"1 s": 1, "5 s": 5, "30 s": 30}, func(t *testing.T, seconds int) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		all := append(c.add(200, "secrets"), c.add(200, "configmaps")...)
		after(30 * time.Second)
		c.retryEvery(500*time.Millisecond, all[:200])
		c.serveAll(failing(throttled(seconds)))
		c.forget()
		c.cutAll(nil)
		after(5 * time.Second)
		early := len(c.seen())
		after(2 * time.Minute)
		late := len(c.seen()) - early
		t.Logf("requests: %d in 5 s, %d in the 2 min after them", early, late)
		if early > 100 {
			t.Errorf("requests in the first 5 s: got %d, want at most 100: those before the first answers", early)
		}
		// Retry-After binds a member; others probe the resource.
		if most := 30 + 4*120/seconds + 2*120/4; late > most {
			t.Errorf("requests in 2 min: got %d, want at most %d", late, most)
		}
		wait := time.Duration(seconds) * time.Second
		for _, id := range all {
			for _, gap := range gaps(c.seenOf(id)) {
				if gap < wait {
					t.Fatalf("member %d: got a request %v after the last, want its Retry-After honored", id, gap)
				}
			}
		}
		c.serveAll(healthy)
		began := time.Now()
		after(wait*3/2 + 20*time.Second)
		c.wantRead(all, began, wait*3/2+10*time.Second, "all when they are served again")
	})
}

// A hung request does not stop the probes. So all members whose own request does not
// hang soon notice that the server is back.
func TestHungRequestsDoNotStopTheProbes(t *testing.T) {
	tests := map[string]func(down time.Duration, random float64) bool{
		"1 in 10":               func(_ time.Duration, random float64) bool { return random < 0.1 },
		"2 in 3":                func(_ time.Duration, random float64) bool { return random < 0.67 },
		"all":                   func(time.Duration, float64) bool { return true },
		"all in the last 10 s":  func(down time.Duration, _ float64) bool { return down > 30*time.Second },
		"all in the first 20 s": func(down time.Duration, _ float64) bool { return down < 20*time.Second },
	}
	eachCase(t, tests, func(t *testing.T, hangs func(time.Duration, float64) bool) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		all := c.add(1000, "secrets")
		after(20 * time.Second)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
		hung := map[int]time.Time{}
		began := time.Now()
		c.serveAll(func(call call) answer {
			if hangs(time.Since(began), random.Float64()) {
				hung[call.id] = time.Now()
				return hanging(call)
			}
			return failing(errDown)(call)
		})
		c.cutAll(nil)
		after(40 * time.Second)
		c.serveAll(healthy)
		began = time.Now()
		var stuck []int // in a request from before
		for id, since := range hung {
			if time.Since(since) < time.Minute {
				stuck = append(stuck, id)
			}
		}
		after(90 * time.Second)
		if len(stuck) > 100 {
			t.Errorf("requests that hang: got %d, want at most 100: the server is away", len(stuck))
		}
		c.wantRead(without(all, stuck), began, 15*time.Second, "all others")
		c.wantRead(stuck, began, 80*time.Second, "those whose request hangs")
	})
}

// Streams that all end at once are opened again fast: no attempt has failed.
func TestMassCutReturnsFast(t *testing.T) {
	eachCase(t, map[string]error{"regular end": nil, "reset": io.ErrUnexpectedEOF}, func(t *testing.T, cause error) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		all := append(c.add(500, "secrets"), c.add(500, "configmaps")...)
		for range 3 {
			after(30 * time.Second)
			began := time.Now()
			c.cutAll(cause)
			after(10 * time.Second)
			c.wantRead(all, began, 3*time.Second, "streams that ended")
		}
	})
}
