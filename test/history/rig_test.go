// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/history"
)

var (
	errAbsent        = apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "x")
	errNotSynced     = fmt.Errorf("%w: %w", objectcache.ErrNotSynced, context.DeadlineExceeded)
	errNotRegistered = fmt.Errorf("secrets: %w", objectcache.ErrNotRegistered)
)

// fresh is the bound of all rules about time.
const fresh = 15 * time.Second

var limits = history.Limits{
	Fresh: fresh, ImmutableFresh: 20 * time.Minute, Streams: 2,
	ObjectRequests: 8, ObjectFailures: 5, Failures: 20, Dials: 5, OutageFailures: 3, OutageDials: 2,
	PartialFailures: 6, PartialDials: 4,
}

// limitsOf returns the limits for the cases of a rule. Most cases have no requests, or no references.
func limitsOf(rule string) history.Limits {
	limits := limits
	switch rule {
	case "L4":
		limits.Attempt = fresh
	case "S5", "S7", "L2":
		limits.Released = time.Second
	}
	return limits
}

// rig is a recorder whose events are checked as they come, and again from the file.
type rig struct {
	*history.Recorder
	object

	x       history.Object // of object
	t       *testing.T
	checker *history.Checker
	file    bytes.Buffer
}

// object is an object with helpers that keep a case short. The state of a write is that of its number.
type object struct {
	history.Object
	writes *int
}

func inBubble(t *testing.T, limits history.Limits, incompleteWrites bool, f func(r *rig)) history.Report {
	t.Helper()
	var report history.Report
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, checker: history.NewChecker(limits)}
		r.Recorder = history.NewRecorder(history.Options{Checker: r.checker, Output: &r.file, IncompleteWrites: incompleteWrites})
		r.object = r.named("x")
		r.x = r.object.Object
		f(r)
		r.Foreign("the last event")
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		report = r.checker.Finish(time.Now())
		again, err := history.Check(&r.file, limits)
		if err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(again), fmt.Sprint(report); got != want {
			t.Errorf("the history in the file:\ngot  %s\nwant %s", got, want)
		}
	})
	report.Count-- // the last event
	for i, v := range report.Violations {
		if strings.Contains(v.Text, "the last event") {
			report.Violations = append(report.Violations[:i:i], report.Violations[i+1:]...)
			break
		}
	}
	return report
}

func (r *rig) named(name string) object {
	return object{r.Recorder.Object("secrets/default/" + name), new(int)}
}

// state returns the state of a write.
func state(number int) history.State {
	return history.State{UID: "uid", Version: fmt.Sprint(100 + number), Digest: fmt.Sprint("digest ", number)}
}

func immutable(number int) history.State {
	s := state(number)
	s.UID, s.Immutable = "recreated", true
	return s
}

func (o object) begin() history.Write {
	*o.writes++
	return o.BeginWrite(state(*o.writes).Digest)
}

func (o object) write() { o.begin().Commit(state(*o.writes)) }
func (o object) delete() {
	*o.writes++
	o.BeginDelete().Commit(history.State{})
}

// recreated is an immutable object that an owner has, and that was made again as the third write.
func (o object) recreated() {
	o.begin().Commit(immutable(1))
	o.BeginReference("a").End()
	o.gets(immutable(1))
	o.delete()
	o.begin().Commit(immutable(3))
}

func (o object) reference()            { o.BeginReference("").End() }
func (o object) release()              { o.BeginRelease("").End() }
func (o object) beginGet() history.Get { return o.BeginGet(context.Background()) }
func (o object) beginDemandingGet(newest bool) history.Get {
	return o.BeginDemandingGet(context.Background(), newest)
}

func (o object) get(number int)       { o.beginGet().Return(state(number), nil) }
func (o object) gets(s history.State) { o.beginGet().Return(s, nil) }
func (o object) fails(err error)      { o.beginGet().Return(history.State{}, err) }

// request is a request that ends at once.
func (o object) request(verb string, code int) {
	o.Request(verb)
	o.Response(verb, code)
}

func pick[T any](wrong bool, bad, good T) T {
	if wrong {
		return bad
	}
	return good
}
