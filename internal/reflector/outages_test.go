// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector"
)

// linesOf returns the lines of a log about outages, without their heads.
func linesOf(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if _, text, _ := strings.Cut(line, "] "); strings.HasPrefix(text, `"Outage`) {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return lines
}

// The log has a line at level 0 for the begin of an outage, with the cause, and one for its end, whatever the server
// does, and however few reflectors there are.
func TestOutagesAreLogged(t *testing.T) {
	skipCrowd(t)
	const began = `"Outage began, one request at a time will try" gate="cluster" `
	const ended = `"Outage ended" gate="cluster" `
	tests := map[string]struct {
		away behavior
		want []string // patterns
		then behavior // nil: healthy
	}{
		"no connection": {away: failing(errDown), want: []string{
			began + `err=".*refused"`, ended + `lasted="(2m5|3m)[0-9.ms]*"`,
		}},
		"no connection, then 403": {away: failing(errDown), want: []string{
			began + `err=.*`, `"Outage ended, the server answers with another failure" gate="cluster" lasted=.*`,
		}, then: failing(forbidden())},
		"5xx, then 403": {away: failing(unreadable()), want: []string{
			began + `resource="secrets" err=.*`,
			`"Outage ended, the server answers with another failure" gate="cluster" resource="secrets" lasted=.*`,
		}, then: failing(forbidden())},
		"5xx": {away: failing(unreadable()), want: []string{
			began + `resource="secrets" err=".*"`, ended + `resource="secrets" lasted=".*"`,
		}},
		"401": {away: failing(unauthorized()), want: []string{ // of the only resource, and so of the server
			began + `resource="secrets" err=.*`, began + `err="the token has expired"`, ended + `lasted=.*`, ended + `resource=.*`,
		}},
		"hanging": {away: hanging, want: []string{
			began + `resource="secrets" err="no answer from the server"`,
			ended + `resource="secrets" lasted=".*"`,
		}},
	}
	for name, test := range tests {
		for _, number := range []int{1, 30} {
			t.Run(fmt.Sprintf("%s, %d", name, number), func(t *testing.T) {
				log := logged(t, "0", func() {
					synctest.Test(t, func(t *testing.T) {
						c := newCrowd(t, reflector.GateOptions{Name: "cluster"}, healthy)
						c.add(number, "secrets")
						after(time.Minute)
						c.serveAll(test.away)
						c.cutAll(nil)
						after(3 * time.Minute)
						if test.then == nil {
							test.then = healthy
						}
						c.serveAll(test.then)
						after(20 * time.Minute) // 16 refusals of the only object end its outage
					})
				})
				matches := func(line, pattern string) bool { return regexp.MustCompile("^" + pattern + "$").MatchString(line) }
				if got := linesOf(log); !slices.EqualFunc(got, test.want, matches) {
					t.Errorf("got\n%s\nwant %q", strings.Join(got, "\n"), test.want)
				}
			})
		}
	}
}

// The lines at level 0 are bounded, however many resources have an outage. An end has the level of its begin.
func TestLinesAboutOutagesAreBounded(t *testing.T) {
	skipCrowd(t)
	for level, want := range map[string]int{"0": 10, "2": 100} {
		log := logged(t, level, func() {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{}, healthy)
				for i := range 400 {
					c.add(1, fmt.Sprint("resource-", i%100))
				}
				after(time.Minute)
				c.serveAll(failing(unreadable()))
				c.cutAll(nil)
				after(5 * time.Second)
				c.serveAll(healthy)
				after(time.Minute)
			})
		})
		if got := strings.Count(log, "Outage began"); got != want {
			t.Errorf("level %s: got %d begins, want %d", level, got, want)
		}
		if got := strings.Count(log, "Outage ended"); got != want {
			t.Errorf("level %s: got %d ends, want %d", level, got, want)
		}
	}
}

// A reflector ends after the line that is written on its behalf. It does not wait for that of another one.
func TestLineDoesNotOutliveItsReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := false
		slow := funcr.New(func(_, text string) {
			if strings.Contains(text, "Outage began") {
				time.Sleep(time.Hour)
				written = true
			}
		}, funcr.Options{})
		gate := reflector.NewGate(reflector.GateOptions{})
		start := func(ctx context.Context) (r *reflector.Reflector, ended chan struct{}) {
			r, ended = reflector.New(watching(fails(errDown)), newSecretSlot(), reflector.Options{Gate: gate}), make(chan struct{})
			r.Start(ctx, func() { close(ended) })
			return r, ended
		}
		first, firstEnded := start(klog.NewContext(t.Context(), slow))
		after(time.Minute) // the line is being written
		other, otherEnded := start(t.Context())
		after(time.Second)
		began := time.Now()
		other.Stop()
		<-otherEnded
		if took := time.Since(began); took > time.Second {
			t.Errorf("another reflector has ended after %v, want a second at most", took)
		}
		first.Stop()
		<-firstEnded
		if !written {
			t.Error("the reflector has ended, and its line was not written yet")
		}
	})
}

// The end of an outage is logged also if the reflector that has ended it is stopped at once.
func TestEndByAReflectorThatStops(t *testing.T) {
	log := logged(t, "0", func() {
		synctest.Test(t, func(t *testing.T) {
			var r *reflector.Reflector
			stop := func() {
				if r.Status().Synced {
					r.Stop()
				}
			}
			down := fails(errDown)
			source := watching(down, down, down, opens(state(secret("5"), "7")...))
			r = reflector.New(source, newSecretSlot(), reflector.Options{OnChange: stop})
			ended := make(chan struct{})
			r.Start(t.Context(), func() { close(ended) })
			<-ended
		})
	})
	if got := linesOf(log); len(got) != 2 || !strings.HasPrefix(got[1], `"Outage ended" lasted=`) {
		t.Errorf("got %q, want the begin and the end", got)
	}
}

// OnChange is called for no outage when Run has returned, though many reflectors learn of it.
func TestNoNotificationAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var calls, late atomic.Int32
		var all []*fakeStream
		for range 100 {
			var over atomic.Bool
			stream := newStream(state(secret("5"), "7")...)
			all = append(all, stream)
			r := reflector.New(watching(stream.answer, fails(errDown)), newSecretSlot(), reflector.Options{Gate: gate, Resource: "secrets", OnChange: func() {
				calls.Add(1)
				if over.Load() {
					late.Add(1)
				}
				time.Sleep(time.Millisecond)
			}})
			running.Go(func() { r.Run(ctx); over.Store(true) })
		}
		time.Sleep(time.Minute)
		calls.Store(0)
		for _, stream := range all {
			stream.finish(errDown)
		}
		for gate.Status().Cause == nil {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(3 * time.Millisecond)
		cancel()
		running.Wait()
		time.Sleep(time.Minute)
		if calls.Load() == 0 || late.Load() > 0 {
			t.Errorf("%d of %d calls of OnChange came after Run, want none of some", late.Load(), calls.Load())
		}
	})
}

// An attempt may end two outages, that of the resource and that of the server. Both lines are written before its
// reflector ends, however slow the log is.
func TestTwoEndsByAReflectorThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		slow := funcr.New(func(_, text string) {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(text, "Outage") {
				lines = append(lines, text)
			}
		}, funcr.Options{})
		var r *reflector.Reflector
		down := fails(unauthorized())
		r = reflector.New(watching(down, down, down, opens(state(secret("5"), "7")...)), newSecretSlot(), reflector.Options{OnChange: func() {
			if r.Status().Synced {
				time.AfterFunc(time.Millisecond, r.Stop)
			}
		}})
		ended := make(chan struct{})
		r.Start(klog.NewContext(t.Context(), slow), func() { close(ended) })
		<-ended
		mu.Lock()
		defer mu.Unlock()
		ends := 0
		for _, line := range lines {
			if strings.Contains(line, "ended") {
				ends++
			}
		}
		if len(lines) != 4 || ends != 2 {
			t.Errorf("got %q, want two begins and two ends", lines)
		}
	})
}
