// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/internal/states"
)

// What each answer means after a read at version 10, which held the secret at version 8.
func TestOrder(t *testing.T) {
	read := func(state secretState, version string) func(*secretOrder, secretState) (secretState, states.Verdict) {
		return func(o *secretOrder, held secretState) (secretState, states.Verdict) {
			return o.Read(held, state, version, held.SameContent(state))
		}
	}
	event := func(version string, exists bool) func(*secretOrder, secretState) (secretState, states.Verdict) {
		return func(o *secretOrder, held secretState) (secretState, states.Verdict) {
			return o.Event(held, secretWith(version, "b"), exists)
		}
	}
	tests := map[string]struct {
		newWriter bool
		answer    func(*secretOrder, secretState) (secretState, states.Verdict)
		want      states.Verdict
		version   string // of the state afterwards
		epoch     uint64
	}{
		"a read of the same":                      {false, read(exists("8", "a"), "12"), states.Same, "8", 0},
		"a newer object":                          {false, read(exists("11", "b"), "12"), states.Newer, "11", 0},
		"a read without the object":               {false, read(absent("12"), "12"), states.Newer, "12", 0},
		"a read at the version seen":              {false, read(absent("10"), "10"), states.Newer, "10", 0},
		"an older read":                           {false, read(absent("9"), "9"), states.Late, "8", 0},
		"an older object, in a newer read":        {false, read(exists("7", "a"), "12"), states.Newer, "7", 1},
		"other content at the version":            {false, read(exists("8", "b"), "12"), states.Newer, "8", 1},
		"an older read of another writer":         {true, read(absent("9"), "9"), states.Newer, "9", 1},
		"a newer read of another writer":          {true, read(absent("12"), "12"), states.Newer, "12", 0},
		"an older read of another, with the same": {true, read(exists("8", "a"), "9"), states.Same, "8", 0},
		"a newer event":                           {false, event("11", true), states.Newer, "11", 0},
		"an event at the version seen":            {false, event("10", true), states.Late, "8", 0},
		"a newer deletion":                        {false, event("11", false), states.Newer, "11", 0},
		"a deletion with the object's version":    {false, event("8", false), states.Newer, "10", 0},
		"a deletion in between":                   {false, event("9", false), states.Late, "8", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var order secretOrder
			first := exists("8", "a")
			held, verdict := order.Read(secretState{}, first, "10", false)
			if verdict != states.Newer || order.Version() != "10" {
				t.Fatalf("the first read: got %s at version %q, want Newer at 10", verdict, order.Version())
			}
			if test.newWriter {
				order.NewWriter()
			}
			got, verdict := test.answer(&order, held)
			if verdict != test.want || got.ResourceVersion != test.version || got.Epoch != test.epoch {
				t.Errorf("got %s: %v, want %s with version %q in epoch %d", verdict, got, test.want, test.version, test.epoch)
			}
			if verdict != states.Newer && got != held {
				t.Errorf("the state changed with an answer that is %s", verdict)
			}
		})
	}
}

// In a new epoch nothing was seen: any read is the state.
func TestOrderNewEpoch(t *testing.T) {
	var order secretOrder
	held, _ := order.Read(secretState{}, exists("8", "a"), "10", false)
	order.NewEpoch()
	got, verdict := order.Read(held, exists("3", "b"), "4", false)
	if verdict != states.Newer || got.ResourceVersion != "3" || got.Epoch != 1 || order.Version() != "4" {
		t.Errorf("got %s: %v, want version 3 in epoch 1", verdict, got)
	}
	order.Bookmark("20")
	if got, verdict := order.Event(got, secretWith("15", "c"), true); verdict != states.Late {
		t.Errorf("an event before a bookmark: got %s: %v, want it to be late", verdict, got)
	}
}

// An event before the first complete read is the state, but does not sync it.
func TestOrderEventDoesNotSync(t *testing.T) {
	var order secretOrder
	if got, verdict := order.Event(secretState{}, secret("5"), true); verdict != states.Newer || got.Synced || !got.Exists {
		t.Errorf("got %s: %v, want it to exist and not synced", verdict, got)
	}
}

// A read has an object that is older than the absence that is held: the server was rolled
// back, and its versions have passed those that were seen.
func TestObjectOlderThanItsAbsence(t *testing.T) {
	var order secretOrder
	held, _ := order.Read(secretState{}, absent("20"), "20", false)
	if got, _ := order.Read(held, exists("10", ""), "30", false); got.Epoch != 1 || got.ResourceVersion != "10" {
		t.Errorf("got %v, want version 10 in epoch 1", got)
	}
}

// Some servers send a deletion with the last version that the object had.
func TestIssue8DeletionWithTheLastVersion(t *testing.T) {
	tests := map[string]struct {
		bookmark string
		deleted  *corev1.Secret
		gone     string // the version of the absence; empty if it still exists
	}{
		"its last version":  {"", secret("10"), "10"},
		"after a bookmark":  {"30", secret("10"), "30"},
		"an older one":      {"", secret("9"), ""},
		"of another object": {"", secret("10", "two"), ""},
		"in between":        {"30", secret("20"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var order secretOrder
			held, _ := order.Read(secretState{}, exists("10", ""), "10", false)
			order.Bookmark(test.bookmark)
			got, _ := order.Event(held, test.deleted, false)
			if got.Exists != (test.gone == "") || !got.Exists && got.ResourceVersion != test.gone {
				t.Errorf("got %v, want it gone at version %q", got, test.gone)
			}
			if got, verdict := order.Event(got, secret("10"), true); verdict != states.Late {
				t.Errorf("the object's last event, late: got %s: %v, want Late", verdict, got)
			}
		})
	}
}

// A rollback to the very same object is no change. The next change is of the new epoch.
func TestIssue8NewEpochWithTheSameObject(t *testing.T) {
	var order secretOrder
	held, _ := order.Read(secretState{}, exists("8", "a"), "20", false)
	order.NewEpoch()
	if got, verdict := order.Read(held, exists("8", "a"), "9", true); got != held || verdict != states.Same {
		t.Errorf("got %s: %v, want no change", verdict, got)
	}
	held, _ = order.Event(held, secretWith("10", "b"), true)
	if held.Epoch != 1 || held.ResourceVersion != "10" {
		t.Errorf("got %v, want version 10 in epoch 1", held)
	}
	if got, _ := order.Read(held, exists("10", "c"), "12", false); got.Epoch != 2 {
		t.Errorf("other content after that: got epoch %d, want 2", got.Epoch)
	}
}

// What reads of the secret alone mean, one after the other. An absence has no version.
func TestOrderOfReadsOfTheObject(t *testing.T) {
	gone := absent("")
	tests := map[string]struct {
		reads []secretState  // after one of version 8 with content a
		want  states.Verdict // of the last
		epoch uint64
	}{
		"the same":                               {[]secretState{exists("8", "a")}, states.Same, 0},
		"a newer object":                         {[]secretState{exists("9", "a")}, states.Newer, 0},
		"an older object":                        {[]secretState{exists("7", "a")}, states.Newer, 1},
		"other content at the version":           {[]secretState{exists("8", "b")}, states.Newer, 1},
		"no object":                              {[]secretState{gone}, states.Newer, 0},
		"still no object":                        {[]secretState{gone, gone}, states.Same, 0},
		"a newer object after an absence":        {[]secretState{gone, exists("9", "a")}, states.Newer, 0},
		"the version again, after an absence":    {[]secretState{gone, exists("8", "b")}, states.Newer, 1},
		"an older object, after two absences":    {[]secretState{gone, gone, exists("7", "a")}, states.Newer, 1},
		"a newer object after one of two epochs": {[]secretState{exists("7", "a"), exists("8", "b")}, states.Newer, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var order secretOrder
			held, verdict := order.ReadObject(secretState{}, exists("8", "a"), false)
			for _, read := range test.reads {
				held, verdict = order.ReadObject(held, read, held.SameContent(read))
			}
			if last := test.reads[len(test.reads)-1]; verdict != test.want || held.Epoch != test.epoch || held.ResourceVersion != last.ResourceVersion {
				t.Errorf("got %s: %v, want %s in epoch %d", verdict, held, test.want, test.epoch)
			}
		})
	}
}
