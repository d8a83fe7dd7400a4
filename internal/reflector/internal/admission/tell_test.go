// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// told collects what observers are told of.
type told struct {
	blocks, notifying time.Duration // how long the methods take

	mu      sync.Mutex
	changes []admission.Outage
}

func (o *told) OutageBegan() { time.Sleep(o.notifying) }

func (o *told) OutageChanged(change admission.Outage) (report func()) {
	return func() {
		o.mu.Lock()
		o.changes = append(o.changes, change)
		o.mu.Unlock()
		time.Sleep(o.blocks)
	}
}

func (o *told) list() []admission.Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.changes)
}

// all returns the changes, as text.
func (o *told) all() (changes []string) {
	for _, c := range o.list() {
		text := "began"
		if !c.Until.IsZero() {
			text = "ended"
		}
		if !c.Server {
			text += " " + c.Resource
		}
		changes = append(changes, text)
	}
	return changes
}

// crowdOf returns members that have synced.
func crowdOf(t *testing.T, c *admission.Controller, o admission.Observer, n int, resource string) (members []*admission.Member) {
	for range n {
		m := &admission.Member{}
		c.Join(m, resource, o)
		t.Cleanup(m.Leave)
		members = append(members, m)
		attempt(t, m, admission.Synced)
	}
	return members
}

// attempt makes an attempt of m.
func attempt(t *testing.T, m *admission.Member, kind admission.Kind) {
	t.Helper()
	if err := m.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Release(admission.Outcome{Kind: kind, Cause: errBad})
	synctest.Wait()
}

// Leave may be called with a lock that observers take. A member that is about to take no changes asks for them.
func TestLeaveReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := admission.New(10), &told{}
		members := crowdOf(t, c, o, 3, "secrets")
		attempt(t, members[0], admission.Unreachable)
		attempt(t, members[1], admission.Unreachable)
		if err := members[2].Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		members[2].Release(admission.Outcome{Kind: admission.Unreachable, Cause: errBad})
		members[1].Leave()
		if got := o.all(); len(got) > 0 {
			t.Errorf("after Leave: got %v, want nothing yet", got)
		}
		members[1].Report()
		if got := o.all(); !slices.Equal(got, []string{"began"}) {
			t.Errorf("after Report: got %v, want the begin", got)
		}
	})
}

// An observer is told of the begin of an outage and of its end: once each.
func TestBeginAndEndOfAnOutage(t *testing.T) {
	const unreachable, failed, synced, refused = admission.Unreachable, admission.Failed, admission.Synced, admission.Refused
	began, ended := "began", "ended"
	tests := map[string]struct {
		resource string
		kinds    []admission.Kind
		want     []string
	}{
		"server, until a success":        {"secrets", []admission.Kind{unreachable, synced}, []string{began, ended}},
		"server, until a refusal":        {"secrets", []admission.Kind{unreachable, refused}, []string{began, ended}},
		"server, that goes on":           {"secrets", []admission.Kind{unreachable, admission.Canceled, unreachable}, []string{began}},
		"resource, until a success":      {"secrets", []admission.Kind{failed, failed, synced}, []string{"began secrets", "ended secrets"}},
		"resource, until another answer": {"secrets", []admission.Kind{failed, admission.Answered}, []string{"began secrets", "ended secrets"}},
		"resource, until refusals in a row": {
			"secrets", slices.Concat([]admission.Kind{failed}, slices.Repeat([]admission.Kind{refused}, 16)),
			[]string{"began secrets", "ended secrets"},
		},
		"resource, that refuses some": {
			"secrets", slices.Repeat(slices.Concat([]admission.Kind{failed}, slices.Repeat([]admission.Kind{refused}, 15)), 3),
			[]string{"began secrets"},
		},
		"resource, that refuses and throttles": {
			"secrets", slices.Concat([]admission.Kind{failed}, slices.Repeat([]admission.Kind{admission.Throttled, refused}, 16)),
			[]string{"began secrets"},
		},
		"resource, that goes on":  {"secrets", []admission.Kind{failed, failed, failed}, []string{"began secrets"}},
		"resource without a name": {"", []admission.Kind{failed, synced}, []string{"began ", "ended "}},
		"server, then a resource": {"secrets", []admission.Kind{unreachable, failed}, []string{began, ended}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := admission.New(32), &told{}
				members := crowdOf(t, c, o, 3, test.resource)
				since := time.Now()
				for _, m := range members { // all fail
					attempt(t, m, test.kinds[0])
					since = time.Now()
				}
				if got := c.Status().Since; !got.Equal(since) {
					t.Errorf("Status: got an outage since %v, want %v", got, since)
				}
				for _, kind := range test.kinds[1:] {
					attempt(t, members[0], kind)
				}
				if got := o.all(); !slices.Equal(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if first := o.list()[0]; !errors.Is(first.Cause, errBad) || first.Kind != test.kinds[0] || !first.Since.Equal(since) {
					t.Errorf("begin: got %+v, want the cause, and the time", first)
				}
				if all := o.list(); len(all) > 1 {
					if end := all[1]; end.By != test.kinds[len(test.kinds)-1] || !end.Until.Equal(time.Now()) || !end.Since.Equal(since) {
						t.Errorf("end: got %+v, want the answer, and both times", end)
					}
				}
			})
		})
	}
}

// Refusals are not in a row if an attempt that is no probe fails in between, as the first one of a new member.
func TestRefusalsBesideFailuresOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := admission.New(32), &told{}
		members := crowdOf(t, c, o, 3, "secrets")
		for _, m := range members {
			attempt(t, m, admission.Failed)
		}
		for range 40 {
			attempt(t, members[0], admission.Refused)
			added := &admission.Member{}
			c.Join(added, "secrets", o)
			attempt(t, added, admission.Failed)
			added.Leave()
		}
		if got, want := o.all(), []string{"began secrets"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// If no member could end an outage, because each has rested, it goes on with the next failure: nobody is told again,
// and the success that follows is its end.
func TestOutageWhileAllRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := admission.New(32), &told{}
		members := crowdOf(t, c, o, 4, "secrets")
		var since time.Time
		for range 3 {
			for _, m := range members {
				attempt(t, m, admission.Unreachable)
			}
			if since.IsZero() {
				since = c.Status().Since
			}
			if got := c.Status(); got.Cause == nil || !got.Since.Equal(since) {
				t.Errorf("got an outage by %v since %v, want one since %v", got.Cause, got.Since, since)
			}
			for _, m := range members {
				m.Rest()
			}
			time.Sleep(time.Hour)
			for _, m := range members {
				m.Resume()
			}
		}
		attempt(t, members[0], admission.Synced)
		if got := o.all(); !slices.Equal(got, []string{"began", "ended"}) {
			t.Errorf("got %q, want one begin and one end", got)
		}
	})
}

// An observer that blocks, as a log does, delays no attempt, and no member that is notified because it waits. Each
// change is told.
func TestObserverThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := admission.New(32), &told{blocks: time.Hour, notifying: time.Second}
		kinds := []string{"secrets", "configmaps", "widgets"}
		var all [][]*admission.Member
		for _, kind := range kinds {
			all = append(all, crowdOf(t, c, o, 4, kind))
		}
		began := time.Now()
		for range 5 {
			for _, members := range all {
				for _, m := range members {
					attempt(t, m, admission.Failed)
				}
			}
			for _, members := range all {
				attempt(t, members[0], admission.Synced)
			}
		}
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("the members were served in %v, want 5 minutes at most", took)
		}
		time.Sleep(24 * time.Hour)
		told := map[string]int{}
		for _, change := range o.all() {
			told[change]++
		}
		for _, kind := range kinds {
			if began, ended := told["began "+kind], told["ended "+kind]; began == 0 || ended != began {
				t.Errorf("outages of %s: told of %d begins and %d ends, want as many, and one at least", kind, began, ended)
			}
		}
	})
}

// Whatever members do, begins and ends take turns, for the server and for each resource; the last one told is a begin
// if there is an outage.
func TestToldOutagesTakeTurns(t *testing.T) {
	kinds := []admission.Kind{
		admission.Synced, admission.Synced, admission.Answered, admission.Refused, admission.Unauthorized, admission.Throttled,
		admission.Failed, admission.Unreachable, admission.GivenUp, admission.Canceled,
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, 8).Draw(rt, "member"), rapid.IntRange(0, 13).Draw(rt, "action"), rapid.IntRange(0, 3).Draw(rt, "pace")}
		}), 1, 60).Draw(rt, "steps")
		var problem string
		synctest.Test(t, func(t *testing.T) {
			c, o := admission.New(4), &told{}
			members := make([]admission.Member, 9)
			for i := range members {
				c.Join(&members[i], fmt.Sprint("resource-", i/4), o)
				members[i].Request(func() {})
			}
			for _, step := range steps {
				switch m, action := &members[step[0]], step[1]; action {
				case 10:
					m.Rest()
				case 11:
					m.Resume()
				case 12:
					m.Expedite()
				case 13:
					m.Leave()
				default:
					m.Release(admission.Outcome{Kind: kinds[action], Cause: errBad})
					m.Request(func() {})
				}
				synctest.Wait() // else two goroutines may tell
				time.Sleep([]time.Duration{0, time.Millisecond, time.Second, time.Minute}[step[2]])
			}
			time.Sleep(24 * time.Hour)
			problem = o.problem(c.Status().Cause != nil)
			for i := range members {
				members[i].Leave()
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// problem returns what is wrong with the changes, if there is an outage now, or none.
func (o *told) problem(outage bool) string {
	under := map[string]bool{}
	for i, c := range o.list() {
		of := fmt.Sprint(c.Server, c.Resource)
		if begins := c.Until.IsZero(); begins == under[of] {
			return fmt.Sprintf("change %d of %q does not follow its opposite", i, o.all())
		}
		under[of] = c.Until.IsZero()
	}
	if outage && !slices.Contains(slices.Collect(maps.Values(under)), true) {
		return "there is an outage, and nobody was told"
	}
	return ""
}
