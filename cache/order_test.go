// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/cache"
)

type (
	secretState = cache.State[*corev1.Secret]
	secretOrder = cache.Order[*corev1.Secret]
)

// exists returns the state that a read of the secret shows.
func exists(version, value string) secretState {
	return secretState{Object: secretWith(version, value), Exists: true, Synced: true, ResourceVersion: version}
}

// absent returns the state that a read without the secret shows.
func absent(version string) secretState { return secretState{Synced: true, ResourceVersion: version} }

// What each answer means after a read at version 10, which held the secret at version 8.
func TestOrder(t *testing.T) {
	read := func(state secretState, version string) func(*secretOrder, secretState) (secretState, cache.Verdict) {
		return func(o *secretOrder, held secretState) (secretState, cache.Verdict) {
			return o.Read(held, state, version, held.SameContent(state))
		}
	}
	event := func(version string, exists bool) func(*secretOrder, secretState) (secretState, cache.Verdict) {
		return func(o *secretOrder, held secretState) (secretState, cache.Verdict) {
			return o.Event(held, secretWith(version, "b"), exists)
		}
	}
	tests := map[string]struct {
		newWriter bool
		answer    func(*secretOrder, secretState) (secretState, cache.Verdict)
		want      cache.Verdict
		version   string // of the state afterwards
		epoch     uint64
	}{
		"a read of the same":                      {false, read(exists("8", "a"), "12"), cache.Same, "8", 0},
		"a newer object":                          {false, read(exists("11", "b"), "12"), cache.Newer, "11", 0},
		"a read without the object":               {false, read(absent("12"), "12"), cache.Newer, "12", 0},
		"a read at the version seen":              {false, read(absent("10"), "10"), cache.Newer, "10", 0},
		"an older read":                           {false, read(absent("9"), "9"), cache.Late, "8", 0},
		"an older object, in a newer read":        {false, read(exists("7", "a"), "12"), cache.Newer, "7", 1},
		"other content at the version":            {false, read(exists("8", "b"), "12"), cache.Newer, "8", 1},
		"an older read of another writer":         {true, read(absent("9"), "9"), cache.Newer, "9", 1},
		"a newer read of another writer":          {true, read(absent("12"), "12"), cache.Newer, "12", 0},
		"an older read of another, with the same": {true, read(exists("8", "a"), "9"), cache.Same, "8", 0},
		"a newer event":                           {false, event("11", true), cache.Newer, "11", 0},
		"an event at the version seen":            {false, event("10", true), cache.Late, "8", 0},
		"a newer deletion":                        {false, event("11", false), cache.Newer, "11", 0},
		"a deletion with the object's version":    {false, event("8", false), cache.Newer, "10", 0},
		"a deletion in between":                   {false, event("9", false), cache.Late, "8", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var order secretOrder
			first := exists("8", "a")
			held, verdict := order.Read(secretState{}, first, "10", false)
			if verdict != cache.Newer || order.Version() != "10" {
				t.Fatalf("the first read: got %s at version %q, want Newer at 10", verdict, order.Version())
			}
			if test.newWriter {
				order.NewWriter()
			}
			got, verdict := test.answer(&order, held)
			if verdict != test.want || got.ResourceVersion != test.version || got.Epoch != test.epoch {
				t.Errorf("got %s: %v, want %s with version %q in epoch %d", verdict, got, test.want, test.version, test.epoch)
			}
			if verdict != cache.Newer && got != held {
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
	if verdict != cache.Newer || got.ResourceVersion != "3" || got.Epoch != 1 || order.Version() != "4" {
		t.Errorf("got %s: %v, want version 3 in epoch 1", verdict, got)
	}
	order.Bookmark("20")
	if got, verdict := order.Event(got, secretWith("15", "c"), true); verdict != cache.Late {
		t.Errorf("an event before a bookmark: got %s: %v, want it to be late", verdict, got)
	}
}

// What reads of the secret alone mean, one after the other. An absence has no version.
func TestOrderOfReadsOfTheObject(t *testing.T) {
	gone := absent("")
	tests := map[string]struct {
		reads []secretState // after one of version 8 with content a
		want  cache.Verdict // of the last
		epoch uint64
	}{
		"the same":                               {[]secretState{exists("8", "a")}, cache.Same, 0},
		"a newer object":                         {[]secretState{exists("9", "a")}, cache.Newer, 0},
		"an older object":                        {[]secretState{exists("7", "a")}, cache.Newer, 1},
		"other content at the version":           {[]secretState{exists("8", "b")}, cache.Newer, 1},
		"no object":                              {[]secretState{gone}, cache.Newer, 0},
		"still no object":                        {[]secretState{gone, gone}, cache.Same, 0},
		"a newer object after an absence":        {[]secretState{gone, exists("9", "a")}, cache.Newer, 0},
		"the version again, after an absence":    {[]secretState{gone, exists("8", "b")}, cache.Newer, 1},
		"an older object, after two absences":    {[]secretState{gone, gone, exists("7", "a")}, cache.Newer, 1},
		"a newer object after one of two epochs": {[]secretState{exists("7", "a"), exists("8", "b")}, cache.Newer, 1},
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
