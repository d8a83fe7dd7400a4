// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

var (
	reasons = [...]string{
		course.Done: "done", course.Over: "over", course.Dropped: "dropped", course.Unread: "unread", course.Restored: "restored",
		course.Demanded: "demanded", course.Unwatched: "unwatched", course.Unopened: "unopened", course.Replaced: "replaced",
		course.Lost: "lost", course.Closed: "closed",
	}
	kinds = [...]string{
		admission.Canceled: "nothing", admission.Synced: "synced", admission.Answered: "answered", admission.Refused: "refused",
		admission.Unauthorized: "unauthorized", admission.Throttled: "throttled", admission.Failed: "failed",
		admission.Unreachable: "unreachable", admission.GivenUp: "given up",
	}
	failures = map[string]error{
		"none": nil, "reset": errReset, "401": answer(401), "403": answer(403), "410": answer(410), "500": answer(500),
		"429": apierrors.NewTooManyRequests("later", 7), "too-large": apierrors.NewTimeoutError("Too large resource version: 9, current: 5", 1),
		"malformed": cache.ErrMalformed, "store": failure.ErrStore, "silent": failure.ErrSilent, "unverified": failure.ErrUnverified,
		"no-answer": failure.ErrNoAnswer, "no-bookmark": failure.ErrNoBookmark,
	}
)

// facts are what a session of the scripts may be. Each sets its own.
var facts = map[string]func(*course.Session){
	"asked":      func(s *course.Session) { s.Since = 1 },
	"answered":   func(s *course.Session) { s.Answered = 2 },
	"stored":     func(s *course.Session) { s.Since, s.Answered, s.Stored = 3, 2, true },
	"consistent": func(s *course.Session) { s.Consistent = true },
	"once":       func(s *course.Session) { s.Once = true },
	"streaming":  func(s *course.Session) { s.Streaming = true },
	"dropped":    func(s *course.Session) { s.Dropped = true },
	"demanded":   func(s *course.Session) { s.Demanded = true },
	"restored":   func(s *course.Session) { s.Demanded, s.Restored = true, true },
	"polled":     func(s *course.Session) { s.Polled = true },
	"earlier":    func(s *course.Session) { s.Earlier = true },
	"over":       func(s *course.Session) { s.Over = true },
}

// end is the end of a session, by its facts and its failure.
func end(t *testing.T, d *datadriven.TestData) string {
	var s course.Session
	var err error
	for _, arg := range d.CmdArgs {
		set, ok := facts[arg.String()]
		if !ok {
			if err, ok = failures[arg.String()]; !ok {
				d.Fatalf(t, "no fact and no failure: %s", arg)
			}
			continue
		}
		set(&s)
	}
	return follows(course.EndOf(s, failure.From(err)))
}

// follows says what follows from the end of a session.
func follows(end course.End) string {
	outcome := end.Outcome()
	says := []string{reasons[end.Reason], "admission learns " + kinds[outcome.Kind]}
	if outcome.RetryAfter > 0 {
		says = append(says, fmt.Sprintf("waits %v", outcome.RetryAfter))
	}
	for _, is := range []struct {
		so   bool
		text string
	}{
		{end.IsUnanswered(), "was unanswered"}, {end.IsBehind(), "the server is behind"}, {end.IsHarmless(), "is harmless"},
		{end.IsClosed(), "counts among streams that others end"}, {end.IsUrgent(), "the next one is urgent"}, {end.IsLast(), "none follows"},
	} {
		if is.so {
			says = append(says, is.text)
		}
	}
	return strings.Join(says, "; ") + "\n"
}

// TestEnds walks the product of all facts and failures.
func TestEnds(t *testing.T) {
	names := []string{"stored", "consistent", "once", "streaming", "dropped", "demanded", "restored", "polled", "earlier", "over"}
	for set := range 1 << len(names) {
		var s course.Session
		for i, name := range names {
			if set>>i&1 == 1 {
				facts[name](&s)
			}
		}
		for name, err := range failures {
			end := course.EndOf(s, failure.From(err))
			if wrong := wrongEnd(end, err); wrong != "" {
				t.Fatalf("%+v, failure %s: %s%s", s, name, follows(end), wrong)
			}
		}
	}
}

// wrongEnd returns what is wrong with the end of a session that had failed with err, or not.
func wrongEnd(end course.End, err error) string {
	outcome, last := end.Outcome(), end.Over || end.Once && end.Stored || end.Dropped && err == nil
	switch {
	case end.IsLast() != last:
		return "what ends for good is not the last, or what goes on is"
	case (end.Reason == course.Unread) != (!end.Stored && !last):
		return "unread means that nothing is stored, and that another attempt follows"
	case end.Reason == course.Unread && end.Failure.Err == nil:
		return "what did not read the state has failed"
	case !last && outcome.Kind == admission.Canceled:
		return "what is followed by another attempt teaches admission nothing"
	case last && (outcome.Kind != admission.Canceled && outcome.Kind != admission.GivenUp || end.IsUrgent() || end.IsHarmless() || end.IsClosed()):
		return "what ends for good has consequences"
	case end.Earlier && outcome.RetryAfter != 0:
		return "a Retry-After is honored twice"
	case end.IsHarmless() && (!end.Streaming || !end.Stored || err == nil):
		return "harmless without a stream, or a failure"
	case end.IsClosed() && (!end.Streaming || end.Demanded || end.Polled):
		return "ended by others, without a stream, or while it was ended from this side"
	case err != nil && outcome.Cause != nil && !errors.Is(outcome.Cause, err):
		return "another cause than that of the failure"
	}
	return ""
}
