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
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// beforeProbes returns how many requests began before the outage was detected: within
// 50 ms of the first one.
func beforeProbes(requests []request) (n int) {
	for n < len(requests) && requests[n].at.Sub(requests[0].at) < 50*time.Millisecond {
		n++
	}
	return n
}

// While the server is away, one reflector at a time makes an attempt, less and less
// often.
func TestOutageIsProbedByOne(t *testing.T) {
	tests := map[string]error{
		"no connection": errDown,
		"500":           unreadable(),
		"503":           unavailable(),
		"429":           apierrors.NewTooManyRequestsError("slow down"),
	}
	eachCase(t, tests, func(t *testing.T, err error) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		c.add(100, "secrets")
		after(time.Minute)
		c.forget()
		c.serveAll(failing(err))
		c.cutAll(nil)
		after(time.Minute)
		longest := 5 * time.Second
		if failure.StatusCode(err) >= 500 { // the server answers: it is probed more often
			longest = 2 * time.Second
		}
		checkProbes(t, c.seen(), longest)
	})
}

// checkProbes checks the requests in the first minute of an outage: those before it
// was detected, and then one probe at a time.
func checkProbes(t *testing.T, requests []request, longest time.Duration) {
	t.Helper()
	before := beforeProbes(requests)
	if before > 48 { // 32, and those that followed the first to fail
		t.Errorf("attempts before the outage was detected: got %d, want at most 48", before)
	}
	probes := gaps(requests[before-1:])
	if least, most := int(time.Minute/longest), 10+2*int(time.Minute/longest); len(probes) < least || len(probes) > most {
		t.Errorf("probes in a minute: got %d, want %d to %d", len(probes), least, most)
	}
	if gap := probes[0]; gap > time.Second+20*time.Millisecond {
		t.Errorf("first probe: got it after %v, want a second at most", gap)
	}
	for i, gap := range probes[1:] {
		if gap < 250*time.Millisecond || gap > longest+20*time.Millisecond || i > 10 && gap < longest/2 {
			t.Errorf("probe %d: got it after %v, want %v to %v in the end", i, gap, longest/2, longest)
		}
	}
	if late := probes[10:]; slices.Max(late)-slices.Min(late) < 400*time.Millisecond {
		t.Errorf("later gaps: got %v, want them jittered", late)
	}
}

// Probes go on beside one that hangs, 0.5 to 5 s apart, however many callers wait.
func TestHungProbesDoNotStopProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(errDown))
		c.add(100, "secrets")
		after(time.Minute)
		c.serveAll(taking(40*time.Second, failing(errDown))) // a probe fails after half of it
		c.forget()
		for range 200 {
			after(time.Second)
			for _, m := range c.members {
				m.Expedite()
			}
		}
		probes := gaps(c.seen())
		if len(probes) < 35 || slices.Min(probes) < 500*time.Millisecond || slices.Max(probes) > 5600*time.Millisecond {
			t.Errorf("got %d probes in 200 s, %v to %v apart, want one each 0.5 to 5.6 s",
				len(probes), slices.Min(probes), slices.Max(probes))
		}
	})
}

// The same without callers: a probe begins each 2.5 to 5 s. When the server is back,
// all are synced except those whose request hangs.
func TestHungProbesDoNotDelayTheReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(errDown))
		c.add(30, "secrets")
		after(10 * time.Second)
		c.serveAll(taking(time.Hour, failing(errDown)))
		after(10 * time.Second)
		c.forget()
		after(35 * time.Second)
		if got := len(c.seen()); got < 5 || got > 13 {
			t.Errorf("probes beside those that hang: got %d in 35 s, want one each 2.5 to 5 s", got)
		}
		c.serveAll(atOnce(nil))
		after(6 * time.Second) // a probe begins at most 5.6 s after the last
		if hung := c.gate.Status().Opening; c.synced() != 30-hung || hung == 30 {
			t.Errorf("synced: got %d of 30, want all but the %d that hang", c.synced(), hung)
		}
	})
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

func TestReturnOfTheServerIsNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(errDown))
		c.add(300, "secrets")
		after(time.Minute)
		c.forget()
		c.serveAll(taking(10*time.Millisecond, healthy))
		after(10 * time.Second)
		if got := c.mostOpening(); got > 32 || got < 10 {
			t.Errorf("opening at a time: got %d, want 10 to 32", got)
		}
		all := c.seen()
		if took := all[len(all)-1].at.Sub(all[0].at); c.synced() != 300 || took > 300*time.Millisecond {
			t.Errorf("got %d synced in %v, want all 300 in 300 ms: the probe, then more and more at a time", c.synced(), took)
		}
	})
}

// The probes of a second outage begin with short pauses again.
func TestPausesOfASecondOutageStartOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(errDown))
		c.add(10, "secrets")
		after(time.Minute)
		c.serveAll(atOnce(nil))
		after(time.Minute)
		c.forget()
		c.serveAll(atOnce(errDown))
		c.cutAll(nil)
		after(2 * time.Second)
		all := c.seen()
		if first := gaps(all)[0]; len(all) < 3 || first > 500*time.Millisecond {
			t.Errorf("got %d attempts in 2 s, the second after %v, want it after 500 ms at most", len(all), first)
		}
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
		secrets, configMaps := c.add(500, "secrets"), c.add(500, "configmaps")
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
		all := append(c.add(500, "secrets"), c.add(500, "configmaps")...)
		after(30 * time.Second)
		c.retryEvery(500*time.Millisecond, all[:500])
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

// While no member is served, the server gets few requests, however many members there
// are and however often callers ask.
func TestNoMemberServedIsNoStorm(t *testing.T) {
	type test struct {
		err    error
		before bool // members were synced before
	}
	tests := map[string]test{
		"invalid token":                 {unauthorized(), true},
		"invalid token, from the start": {unauthorized(), false},
		"down":                          {errDown, true},
		"down, from the start":          {errDown, false},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		c := newCrowd(t, reflector.GateOptions{}, failing(test.err))
		if test.before {
			c.serveAll(healthy)
		}
		all := append(c.add(500, "secrets"), c.add(500, "configmaps")...)
		if test.before {
			after(20 * time.Second)
			c.serveAll(failing(test.err))
			c.forget()
			c.cutAll(nil)
		}
		stop := c.retryEvery(200*time.Millisecond, all)
		after(5 * time.Second)
		if got := len(c.seen()); got > 32+25 {
			t.Errorf("requests in the first five seconds: got %d, want at most 32 before the outage is detected, and 5 a second", got)
		}
		began := time.Now()
		after(10 * time.Second)
		total, _ := c.rate(all, began)
		t.Logf("requests a second: %.1f", total)
		if total > 5 {
			t.Errorf("requests a second: got %.1f, want at most 5 in all", total)
		}
		c.serveAll(healthy)
		began = time.Now()
		after(15 * time.Second)
		stop()
		c.wantRead(all, began, 8*time.Second, "all when they are served again")
	})
}
