// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"testing"
)

// A first object comes from a read beside those of a stream, which may be older or newer. No
// state goes back, and what is newer replaces it.
func TestFirst(t *testing.T) {
	type step = func(*secretOrder, secretState) secretState
	read := func(state secretState, version string) step {
		return func(o *secretOrder, held secretState) secretState {
			held, _ = o.Read(held, state, version, held.SameContent(state))
			return held
		}
	}
	event := func(version string) step {
		return func(o *secretOrder, held secretState) secretState {
			held, _ = o.Event(held, secret(version), true)
			return held
		}
	}
	first := func(version string) step {
		return func(o *secretOrder, held secretState) secretState {
			held, _ = o.First(held, exists(version, ""))
			return held
		}
	}
	call := func(method func(*secretOrder)) step {
		return func(o *secretOrder, held secretState) secretState {
			method(o)
			return held
		}
	}
	bookmark := call(func(o *secretOrder) { o.Bookmark("7") })
	for name, test := range map[string]struct {
		steps []step
		want  string // version of the object; empty: absent
		epoch uint64
	}{
		"alone":                    {[]step{first("5")}, "5", 0},
		"then an older read":       {[]step{first("5"), read(exists("3", ""), "4")}, "5", 0},
		"then an older absence":    {[]step{first("5"), read(absent("4"), "4")}, "5", 0},
		"then the same object":     {[]step{first("5"), read(exists("5", ""), "7")}, "5", 0},
		"then a newer read":        {[]step{first("5"), read(exists("6", ""), "7")}, "6", 0},
		"then a newer absence":     {[]step{first("5"), read(absent("7"), "7")}, "", 0},
		"then an older event":      {[]step{first("5"), event("4")}, "5", 0},
		"then a newer event":       {[]step{first("5"), event("6")}, "6", 0},
		"then an older first":      {[]step{first("5"), first("4")}, "5", 0},
		"then a newer first":       {[]step{first("5"), first("6")}, "6", 0},
		"after a read":             {[]step{read(exists("3", ""), "4"), first("5")}, "3", 0},
		"after an absence":         {[]step{read(absent("4"), "4"), first("3")}, "", 0},
		"after a bookmark":         {[]step{bookmark, first("5"), read(exists("6", ""), "8")}, "6", 0},
		"in another epoch":         {[]step{call((*secretOrder).NewEpoch), first("5")}, "5", 1},
		"then a read under way":    {[]step{call((*secretOrder).NewWriter), first("5"), read(absent("4"), "4")}, "5", 0},
		"of a writer, and a newer": {[]step{call((*secretOrder).NewWriter), first("5"), read(absent("6"), "6")}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var order secretOrder
			var got secretState
			for _, step := range test.steps {
				got = step(&order, got)
			}
			if !got.Synced || got.Exists != (test.want != "") || got.Exists && got.ResourceVersion != test.want || got.Epoch != test.epoch {
				t.Errorf("got %v, want version %q in epoch %d", got, test.want, test.epoch)
			}
		})
	}
}

// An epoch without versions has no other writer: an event before its first read
// makes an older read late.
func TestNewEpochForgetsTheWriter(t *testing.T) {
	var order secretOrder
	order.NewWriter()
	order.NewEpoch()
	held, _ := order.Event(secretState{}, secret("5"), true)
	if got, verdict := order.Read(held, absent("4"), "4", false); !got.Exists || got.Epoch != 1 {
		t.Errorf("got %v, %v, want the event", got, verdict)
	}
}
