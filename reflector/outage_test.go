// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
)

func throttled(seconds int) error { return apierrors.NewTooManyRequests("slow down", seconds) }

func gapsOf(asks []ask) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(asks); i++ {
		all = append(all, asks[i].at.Sub(asks[i-1].at))
	}
	return all
}

// However many there are, and however they came to need the server: while it is
// down one of them asks at a time, ever more seldom.
func TestOneProbesAServerThatIsDown(t *testing.T) {
	unreachable := map[string]error{
		"no connection": errDown,
		"500":           apierrors.NewInternalError(errors.New("no leader")),
		"503":           apierrors.NewServiceUnavailable("starting"),
		"429":           apierrors.NewTooManyRequestsError("slow down"),
	}
	for name, err := range unreachable {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{})
				f.takes(20 * time.Millisecond)
				f.start(100, "secrets")
				after(time.Minute)
				f.forget()
				f.answers(always(err))
				f.breakStreams()
				after(time.Minute)
				longest := 5 * time.Second
				if code := statusCode(err); code >= 500 { // the server answers: it is probed more often
					longest = 2 * time.Second
				}
				checkProbes(t, f.requests(-1), longest)
			})
		})
	}
}

// checkProbes wants the first attempts, those that were let through before it
// was known that the server is down, and then one probe at a time.
func checkProbes(t *testing.T, asks []ask, longest time.Duration) {
	t.Helper()
	first := 0 // attempts of before
	for asks[first].at.Sub(asks[0].at) < 50*time.Millisecond {
		first++
	}
	if first > 48 { // 32, and those that followed the first to fail
		t.Errorf("attempts before the server was known to be down: got %d, want at most 48", first)
	}
	probes := gapsOf(asks[first-1:])
	if least, most := int(time.Minute/longest), 10+2*int(time.Minute/longest); len(probes) < least || len(probes) > most {
		t.Errorf("probes in a minute: got %d, want %d to %d", len(probes), least, most)
	}
	if gap := probes[0]; gap > time.Second+20*time.Millisecond {
		t.Errorf("first probe: got it after %v, want it soon", gap)
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

func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// A probe that hangs does not stop the next ones, however many callers wait. They
// are as far apart as others.
func TestHungProbesDoNotStopProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(always(errDown))
		f.start(100, "secrets")
		after(time.Minute)
		f.takes(40 * time.Second) // a probe fails after half of it
		f.forget()
		for range 200 {
			after(time.Second)
			for _, r := range f.rigs {
				r.Retry()
			}
		}
		probes := gapsOf(f.requests(-1))
		if len(probes) < 35 || slices.Min(probes) < 500*time.Millisecond || slices.Max(probes) > 5600*time.Millisecond {
			t.Errorf("got %d probes in 200 s, %v to %v apart, want one each 0.5 s (callers wait) to 5 s, and a moment",
				len(probes), slices.Min(probes), slices.Max(probes))
		}
	})
}

// One answer is enough for all to follow at once, whatever it says, and however
// often they have failed.
func TestAllFollowAnAnsweredProbe(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old")
	unknown := apierrors.NewNotFound(resource, "")
	unauthorized := apierrors.NewUnauthorized("who are you")
	tests := map[string]error{
		"synced": nil, "403": forbidden(), "404": unknown, "401": unauthorized, "410": gone, "too large": tooLarge(),
	}
	for name, err := range tests {
		for _, n := range []int{100, 5} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { allFollow(t, n, err) })
			})
		}
	}
}

// allFollow has n reflectors wait for a server that is down, and that answers
// the first of them with err.
func allFollow(t *testing.T, n int, err error) {
	f := newFleet(t, reflector.GateOptions{})
	f.answers(always(errDown))
	f.start(n, "secrets")
	after(5 * time.Minute)
	answered := make(chan struct{})
	f.answers(func(int) error {
		select {
		case <-answered:
			return nil
		default:
			close(answered)
			return err
		}
	})
	<-answered
	synctest.Wait()
	want := n
	if err != nil {
		want-- // the one with the answer has a pause of its own
	}
	if got := f.synced(); got < want {
		t.Errorf("synced as soon as there was an answer: got %d, want %d", got, want)
	}
	if got := f.gate.Status(); got.Cause != nil || !got.CauseTime.IsZero() {
		t.Errorf("status: got %+v, want the server known to be up", got)
	}
	after(15 * time.Second)
	if got := f.synced(); got != n {
		t.Errorf("synced a while later: got %d, want all", got)
	}
}

func TestReturnOfTheServerIsNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(always(errDown))
		f.start(300, "secrets")
		after(time.Minute)
		f.forget()
		f.takes(10 * time.Millisecond)
		f.answers(always(nil))
		after(10 * time.Second)
		if got := f.mostOpening(); got > 32 || got < 10 {
			t.Errorf("opening at a time: got %d, want ever more, and at most 32", got)
		}
		all := f.requests(-1)
		if took := all[len(all)-1].at.Sub(all[0].at); f.synced() != 300 || took > 300*time.Millisecond {
			t.Errorf("got %d synced in %v, want all 300 in 300 ms: the probe, then ever more at a time", f.synced(), took)
		}
	})
}

// A second outage begins with short pauses again.
func TestPausesOfTheGateStartOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(always(errDown))
		f.start(10, "secrets")
		after(time.Minute)
		f.answers(always(nil))
		after(time.Minute)
		f.forget()
		f.answers(always(errDown))
		f.breakStreams()
		after(2 * time.Second)
		all := f.requests(-1)
		if last := gapsOf(all)[0]; len(all) < 3 || last > 500*time.Millisecond {
			t.Errorf("got %d attempts in 2 s, the second after %v, want it after 500 ms at most", len(all), last)
		}
	})
}

// Many clients that a server tells the same do not come back at the same time.
func TestRetryAfterIsJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*fleet
		for range 20 {
			f := newFleet(t, reflector.GateOptions{})
			f.answers(always(throttled(20)))
			f.start(1, "secrets")
			all = append(all, f)
		}
		after(31 * time.Second)
		var pauses []time.Duration
		for _, f := range all {
			pauses = append(pauses, gapsOf(f.requests(-1))...)
		}
		if first, last := slices.Min(pauses), slices.Max(pauses); len(pauses) != 20 || first < 20*time.Second || last > 30*time.Second || last-first < 2*time.Second {
			t.Errorf("pauses: got %v, want one of each of 20, spread over 20 to 30 s", pauses)
		}
	})
}

// A server that asks for an hour is asked again after a minute.
func TestRetryAfterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(always(throttled(3600)))
		f.start(1, "secrets")
		after(500 * time.Millisecond)
		f.start(1, "secrets")
		after(10 * time.Minute)
		for id := range 2 {
			for _, gap := range gapsOf(f.requests(id)) {
				if gap < time.Minute || gap > 65*time.Second { // as long as the resource is throttled
					t.Errorf("gap: got %v, want a minute, and a moment", gap)
				}
			}
		}
		if got := len(f.requests(-1)); got < 5 {
			t.Errorf("requests in ten minutes: got %d, want one a minute", got)
		}
	})
}

// Who waits for a turn while the server is down knows why, and so does the gate.
func TestStatusWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 1})
		f.answers(always(errDown))
		f.start(3, "secrets")
		after(10 * time.Second)
		waiting := f.rigs[0].Status()
		if waiting.Failures == 0 || !errors.Is(waiting.LastError, errDown) || failure.Of(waiting.LastError) != failure.Unreachable {
			t.Errorf("status: got %+v, want the cause", waiting)
		}
		f.takes(time.Hour)
		f.start(1, "secrets")
		fresh := f.rigs[3].Status()
		if !fresh.AskedAt.IsZero() || fresh.Failures != 1 || !errors.Is(fresh.LastError, errDown) || fresh.LastErrorTime.IsZero() {
			t.Errorf("status of one that has never asked: got %+v, want the cause that the others know", fresh)
		}
		after(5 * time.Second)
		status := f.gate.Status()
		if status.Opening < 1 || status.Opening+status.Queued+status.Paused != 4 || !errors.Is(status.Cause, errDown) || time.Since(status.CauseTime) > 15*time.Second {
			t.Errorf("gate: got %+v, want a probe, the others that wait, and why", status)
		}
		f.takes(0)
		f.answers(always(nil))
		f.rigs[0].stop()
		f.rigs[1].stop()
		f.rigs[2].stop()
		after(10 * time.Second)
		if got := f.rigs[3].Status(); got.Failures != 0 {
			t.Errorf("status afterwards: got %+v, want no failure", got)
		}
	})
}

// A failure of before is not taken for the present one.
func TestStatusKeepsItsOwnNewerFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 1})
		f.answers(always(errDown))
		f.start(1, "secrets")
		after(10 * time.Second)
		status := f.rigs[0].Status()
		if got := status.Failures; got != len(f.requests(-1)) || got < 4 {
			t.Errorf("status: got %+v, want every open counted as its own failure", status)
		}
	})
}

// One object that the server never manages to read is not taken for the server.
// It is asked for ever more seldom, and the others hardly wait because of it.
func TestOneBadObjectHoldsUpNobody(t *testing.T) {
	const lives = 11 * time.Second
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.manner.lives = lives
		f.answers(func(id int) error {
			if id == 0 {
				return apierrors.NewInternalError(errors.New("cannot be decrypted"))
			}
			return nil
		})
		for range 31 {
			f.start(1, "secrets")
			after(300 * time.Millisecond)
		}
		after(5 * time.Minute)
		bad := gapsOf(f.requests(0))
		for _, gap := range bad[len(bad)-10:] {
			if gap < 7500*time.Millisecond || gap > 20*time.Second {
				t.Errorf("gaps of the bad one: got %v, want them to have grown to 7.5 to 15 s", bad)
				break
			}
		}
		for id := 1; id < 31; id++ {
			for _, gap := range gapsOf(f.requests(id)) {
				// A life, a pause of its own, and a moment.
				if gap > lives+200*time.Millisecond+2*time.Second {
					t.Errorf("reflector %d: got a gap of %v, want not to wait for the bad one", id, gap)
				}
			}
		}
	})
}
