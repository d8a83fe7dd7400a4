// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/objectcache"
)

func TestChoose(t *testing.T) {
	live := objectcache.GetOptions{Live: true}
	since := func(version string) objectcache.GetOptions { return objectcache.GetOptions{NotOlderThan: version} }
	for name, test := range map[string]struct {
		known   versions
		sides   sides
		demands objectcache.GetOptions
		fromSet bool
		byName  objectcache.GetOptions
	}{
		"nothing is known":                         {},
		"by name":                                  {sides: sides{held: "7", isHeld: true}},
		"a demand":                                 {demands: since("5"), byName: since("5")},
		"a demand that is live":                    {sides: sides{set: "7"}, demands: live, byName: live},
		"in the set":                               {sides: sides{set: "7"}, fromSet: true},
		"in the set, as new as demanded":           {sides: sides{set: "7"}, demands: since("7"), fromSet: true},
		"in the set, older than demanded":          {sides: sides{set: "7"}, demands: since("8"), byName: since("8")},
		"in the set, and older by name":            {sides: sides{set: "7", held: "6", isHeld: true}, fromSet: true},
		"in the set, and newer by name":            {sides: sides{set: "7", held: "8", isHeld: true}},
		"in the set, and absent by name":           {sides: sides{set: "7", isHeld: true}, byName: since("7")},
		"in the set, older than shown":             {known: versions{shown: "8"}, sides: sides{set: "7"}, byName: since("8")},
		"in the set, older than its metadata":      {sides: sides{set: "7", elsewhere: "8"}, byName: since("8")},
		"in the set, as new as its metadata":       {sides: sides{set: "8", elsewhere: "8"}, fromSet: true},
		"in the set, and gone elsewhere":           {sides: sides{set: "7", passed: true}, byName: since("7")},
		"in the set, and gone since":               {known: versions{gone: "8"}, sides: sides{set: "7"}, byName: since("8")},
		"in the set again":                         {known: versions{gone: "6", left: 1}, sides: sides{set: "7"}, fromSet: true},
		"has left the set":                         {known: versions{left: 1}, sides: sides{held: "7", isHeld: true}, byName: live},
		"has left the set, and was checked before": {known: versions{left: 2, checked: 1}, byName: live},
		"has left the set, and was checked since":  {known: versions{left: 2, checked: 2}},
		"has left the set at a version":            {known: versions{gone: "8"}, sides: sides{held: "7", isHeld: true}, byName: since("8")},
		"has left the set, and is newer by name":   {known: versions{gone: "8"}, sides: sides{held: "9", isHeld: true}},
		"is not in the set, older than shown":      {known: versions{shown: "8"}, sides: sides{held: "7", isHeld: true}, byName: since("8")},
		"is not in the set, as new as shown":       {known: versions{shown: "8"}, sides: sides{held: "8", isHeld: true}},
		"is not in the set, newer demand":          {known: versions{shown: "8"}, demands: since("9"), byName: since("9")},
		"is not in the set, older demand":          {known: versions{shown: "8"}, demands: since("7"), byName: since("8")},
		"older than its metadata":                  {sides: sides{elsewhere: "8", held: "7", isHeld: true}, byName: since("8")},
		"as new as its metadata":                   {sides: sides{elsewhere: "8", held: "8", isHeld: true}},
		"absent by name, with metadata":            {sides: sides{elsewhere: "8", isHeld: true}, byName: since("8")},
	} {
		if fromSet, byName := test.known.choose(test.sides, test.demands); fromSet != test.fromSet || !fromSet && byName != test.byName {
			t.Errorf("%s: got from the set %t and by name %+v, want %t and %+v", name, fromSet, byName, test.fromSet, test.byName)
		}
	}
}

// A Get that began before a deletion event does not count as the read after it.
func TestCheckOfAGetThatBeganBefore(t *testing.T) {
	var known versions
	known.leave("")
	before := known
	known.leave("")
	known.check(before)
	if _, byName := known.choose(sides{held: "7", isHeld: true}, objectcache.GetOptions{}); !byName.Live {
		t.Errorf("got the demands %+v, want a live read", byName)
	}
	known.check(known)
	if _, byName := known.choose(sides{held: "7", isHeld: true}, objectcache.GetOptions{}); byName.Live {
		t.Error("got a live read after one that began later")
	}
}

// side is what lags behind an object: the states up to a moment.
type side struct {
	on bool
	at int
}

// history is an object with each of its states: whether it exists, and has the label.
type history struct {
	states []struct{ exists, labelled bool }
	known  versions
	leased bool
	blind  bool // it is not known how far the metadata has come

	set, metadata, byName side
	reads                 int // of the last Get
	floor                 int // the newest moment that a Get or a handler has been shown
}

func (h *history) now() int { return len(h.states) - 1 }

// version returns the version of an object at a moment, if it exists and has the label where that is asked for.
func (h *history) version(at int, labelled bool) string {
	if state := h.states[at]; !state.exists || labelled && !state.labelled {
		return ""
	}
	return strconv.Itoa(at + 1)
}

// advance brings a side of the stock cache one state further, with an event for handlers. If it has listed again, that
// of a deletion has no version.
func (h *history) advance(s *side, relisted bool) {
	if !s.on || s.at == h.now() {
		return
	}
	before, after := h.version(s.at, true), h.version(s.at+1, true)
	s.at++
	if before != "" && after == "" && h.leased {
		version := strconv.Itoa(s.at + 1)
		if relisted {
			version = ""
		}
		h.known.leave(version)
	}
	if before != "" || after != "" {
		h.floor = max(h.floor, s.at)
	}
}

// get is what view.get does, with a server that meets all demands. It returns the end of the Get, before which the
// sides may advance.
func (h *history) get(t *rapid.T, demands objectcache.GetOptions) (end func()) {
	before, floor, leased := h.known, h.floor, h.leased
	known := sides{isHeld: h.byName.on}
	if h.byName.on {
		known.held = h.version(h.byName.at, false)
	}
	if h.set.on {
		known.set = h.version(h.set.at, true)
	}
	if h.metadata.on {
		known.elsewhere = h.version(h.metadata.at, true)
		known.passed = known.elsewhere == "" && known.set != "" && (h.blind || h.metadata.at >= h.set.at)
	}
	fromSet, byName := before.choose(known, demands)
	got, note := h.set.at, func() { h.known.show(known.set) }
	h.reads = 0
	if !fromSet {
		if demanded, _ := strconv.Atoi(byName.NotOlderThan); byName.Live || !h.byName.on || demanded-1 > h.byName.at {
			h.reads++
		}
		if byName.Live || !h.byName.on {
			h.byName = side{true, h.now()}
		}
		demanded, _ := strconv.Atoi(byName.NotOlderThan)
		h.byName.at = max(h.byName.at, demanded-1)
		h.leased, got, note = true, h.byName.at, func() { h.known.check(before) }
	}
	if got < floor {
		t.Fatalf("Get(%+v) of %+v with %+v: got the state %d, want %d or a later one", demands, known, before, got, floor)
	}
	if asked, _ := strconv.Atoi(demands.NotOlderThan); got < asked-1 {
		t.Fatalf("Get(%+v): got the state %d", demands, got)
	}
	return func() {
		if !fromSet || leased {
			note()
		}
		h.floor = max(h.floor, got)
	}
}

// No Get returns a state from before one that a Get has returned, or of which a handler has had an event, however far
// the set, the metadata and the state by name lag behind.
func TestChooseNothingOlder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{states: []struct{ exists, labelled bool }{{}}}
		h.blind = rapid.Bool().Draw(t, "blind")
		h.set.on, h.metadata.on = rapid.Bool().Draw(t, "set"), rapid.Bool().Draw(t, "metadata")
		var pending []func()
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				h.states = append(h.states, struct{ exists, labelled bool }{rapid.Bool().Draw(t, "exists"), rapid.Bool().Draw(t, "labelled")})
			},
			"set":      func(t *rapid.T) { h.advance(&h.set, rapid.Bool().Draw(t, "relisted")) },
			"metadata": func(t *rapid.T) { h.advance(&h.metadata, rapid.Bool().Draw(t, "relisted")) },
			"by name": func(*rapid.T) {
				if h.byName.on {
					h.byName.at = min(h.byName.at+1, h.now())
				}
			},
			"get":      func(t *rapid.T) { h.get(t, objectcache.GetOptions{})() },
			"get live": func(t *rapid.T) { h.get(t, objectcache.GetOptions{Live: true})() },
			"get since": func(t *rapid.T) {
				version := rapid.IntRange(1, len(h.states)).Draw(t, "version")
				h.get(t, objectcache.GetOptions{NotOlderThan: strconv.Itoa(version)})()
			},
			"get begins": func(t *rapid.T) { pending = append(pending, h.get(t, objectcache.GetOptions{})) },
			"get ends": func(*rapid.T) {
				if len(pending) > 0 {
					pending[0]()
					pending = pending[1:]
				}
			},
			"all catch up": func(t *rapid.T) {
				for h.set.on && h.set.at < h.now() {
					h.advance(&h.set, false)
				}
				for h.metadata.on && h.metadata.at < h.now() {
					h.advance(&h.metadata, false)
				}
				unchecked := h.known.left > h.known.checked
				if h.byName.on && !unchecked {
					h.byName.at = h.now()
					h.get(t, objectcache.GetOptions{})()
					if h.reads > 0 {
						t.Fatal("after all sides have caught up, a Get reads")
					}
				}
			},
			// A lease lasts for IdleTimeout, and this is no promise for a set that lags behind for longer than that.
			"lease ends": func(*rapid.T) {
				if len(pending) == 0 && (!h.set.on || h.set.at >= h.floor) {
					h.known, h.leased, h.byName = versions{}, false, side{}
				}
			},
		})
	})
}
