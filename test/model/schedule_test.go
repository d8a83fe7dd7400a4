// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/test/model"
)

// What a failure prints can be replayed.
func TestParseReturnsWhatStringPrints(t *testing.T) {
	drawn := model.Draw()
	rapid.Check(t, func(rt *rapid.T) {
		s := drawn.Draw(rt, "schedule")
		got, err := model.Parse(s.String())
		if err != nil || got.String() != s.String() {
			rt.Fatalf("parse: got\n%s%v, want\n%s", got, err, s)
		}
	})
}

// A step that does not exist is an error: a misspelt schedule must not pass.
func TestParseRefusesUnknownSteps(t *testing.T) {
	for _, text := range []string{"nothing 1", "inject nothing 1", "with nothing", "get one"} {
		if s, err := model.Parse(text); err == nil {
			t.Errorf("parse %q: got %q, want an error", text, s)
		}
	}
}

// A schedule without faults: register, read, write, delete, and no stream in the end.
func TestReplayOfAnOrdinaryLife(t *testing.T) {
	model.Replay(t, `
		put 0 0
		follow
		register 0 0 1 2
		get 0 5000
		put 0 0
		sleep 1000
		check
		delete 0
		register 1 3
		unregister 0
	`)
}

// A DirectStore reads for each Get, also before the end of a Retry-After.
func TestReplayOfDirectReadsThatAreThrottled(t *testing.T) {
	model.Replay(t, `
		with direct
		inject throttled-streams-closed
		get 3 1000
		get 3 5000
	`)
}

// A dead token under many references causes few requests, whatever else fails: L5.
func TestReplayOfADeadTokenAndABadBackend(t *testing.T) {
	model.Replay(t, `
		with objects 300
		populate
		sleep 5000
		inject one-backend-of-three-unavailable
		inject token-expired-streams-closed
		sleep 61000
	`)
}

// A server that allows few streams on a connection is not dialed more often than others while dials hang: L5. The pool
// of connections began as many dials every four seconds as it had in flight.
func TestReplayOfDialsThatHangWithManyConnections(t *testing.T) {
	model.Replay(t, `
		with streams 5
		with objects 400
		populate
		sleep 5000
		inject dials-hang
		sleep 60000
	`)
}

// Each response may need another connection in an outage, too. Such dials are not in vain: L5.
func TestReplayOfConnectionsThatEndInAnOutage(t *testing.T) {
	for _, outage := range []string{"etcd-down-streams-closed", "throttled-streams-closed"} {
		model.Replay(t, `
			populate
			inject `+outage+`
			inject goaway-again-and-again
			sleep 61000
		`)
	}
}

// client-go's dynamic client repeats throttled requests by itself, up to ten times each: L5 allows for that.
func TestReplayOfThrottlingOnHalfOpenConnections(t *testing.T) {
	model.Replay(t, `
		with objects 10
		populate
		inject throttled
		inject half-open
		sleep 130000
	`)
}

// Connections that are frozen count as living until PINGs have failed. Dials beside them are bounded, too: L5.
func TestReplayOfDialsBesideFrozenConnections(t *testing.T) {
	model.Replay(t, `
		with max-staleness 150000
		with streams 3
		with objects 10
		populate
		sleep 5000
		follow
		sleep 1500
		delete 0
		inject black-hole
		get 0 1
		get 7 50
		newest 6 5000
		sleep 3000
		put 6 1
		inject other-type-in-bookmarks 8 9 5 2 6
		sleep 1500
		heal 1
		sleep 700000
	`)
}

// A watch without an answer is sent again. Then the end of the first one does not end the gap that a restore has left
// between the list and both watches.
func TestReplayOfARestoreBetweenAListAndTwoWatches(t *testing.T) {
	model.Replay(t, `
		with busy 300
		inject watchlist-refused
		inject watch-cache-stopped
		inject one-backend-of-three-refuses
		sleep 130000
		heal 1
		inject slow-server
		register 1 1
		heal 1
		sleep 3000
		inject rollback
	`)
}

// One fault sends bookmarks in place of events, and another one withholds bookmarks: no event is lost.
func TestReplayOfBookmarksInPlaceOfEvents(t *testing.T) {
	model.Replay(t, `
		populate
		inject other-type-in-bookmarks 6
		inject no-end-of-initial-events 6
		sleep 130000
		put-and-get 6
	`)
}

// A fault that ends takes its responses with it, also those that another fault slows down.
func TestReplayOfAFrameWithoutEndThatIsSlow(t *testing.T) {
	model.Replay(t, `
		with objects 2
		inject frame-without-end 1
		inject slow-body 0 1
		register 4 1
	`)
}

// The package documentation explains every step that a failure may print.
func TestEveryStepIsExplained(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	drawn := model.Draw()
	rapid.Check(t, func(rt *rapid.T) {
		for _, step := range drawn.Draw(rt, "schedule") {
			op, _, _ := strings.Cut(strings.TrimPrefix(step.Op, "with "), " ")
			if !strings.Contains(string(doc), op) {
				rt.Fatalf("the documentation has no step %q", step.Op)
			}
		}
	})
}

// The same for a program with few objects: the failures of one member are not forgotten because another kind of
// answer comes.
func TestReplayOfADeadTokenAndABadBackendWithTwoObjects(t *testing.T) {
	model.Replay(t, `
		inject one-backend-of-three-unavailable
		inject token-expired
		register 2 3
		sleep 700000
	`)
}
