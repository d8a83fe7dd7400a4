// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
)

// Scope is which objects a fault affects.
type Scope int

const (
	// OfServer affects all objects.
	OfServer Scope = iota
	// OfKind affects the objects of one kind.
	OfKind
	// OfObjects affects some objects. All others must not notice it.
	OfObjects
	// OfOneServer affects all objects, as far as they are read from one of the two API servers.
	OfOneServer
)

// Fault is a fault of the server or the network.
type Fault struct {
	// Class is a number that faults of the same kind share.
	Class int
	// Name is unique, and is that of the step that injects the fault: "inject NAME".
	Name  string
	Scope Scope
	// Within is how soon after its end the objects that it affects are fresh: that is promised.
	Within time.Duration
	// Inject begins the fault. It returns a function that ends it, or nil if it was over at once. Neither may block.
	Inject func(w *World, target Target) (heal func())
}

// OfVerbs reports whether some verbs fail, and another one may work as long as the fault lasts.
func (f Fault) OfVerbs() bool { return verbFaults[f.Name].fails != 0 }

// Target is what a fault affects.
type Target struct {
	world   *World
	scope   Scope
	kind    int
	server  int
	objects []*Object
	verbs   verbs // 0: all
}

// Has reports whether a request is for what the fault affects.
func (t Target) Has(request apiserver.Request) bool {
	if t.verbs != 0 && t.verbs&verbOf(request) == 0 {
		return false
	}
	switch t.scope {
	case OfObjects:
		return slices.Contains(t.objects, t.world.object(request))
	case OfKind:
		return request.Resource == t.world.kinds[t.kind].resource.Resource
	case OfOneServer:
		return request.Replica == t.server
	}
	return true
}

// servers returns the API servers that the fault affects.
func (t Target) servers() []*apiserver.Server {
	if t.scope == OfOneServer {
		return t.world.servers[t.server : t.server+1]
	}
	return t.world.servers
}

// Objects returns the objects that the fault affects, in their order.
func (t Target) Objects() []*Object {
	switch t.scope {
	case OfObjects:
		return t.objects
	case OfKind:
		var objects []*Object
		for _, o := range t.world.objects {
			if o.Kind == t.kind {
				objects = append(objects, o)
			}
		}
		return objects
	}
	return t.world.objects
}

// activeFault is a fault that has been injected.
type activeFault struct {
	Fault

	target   Target
	heal     func() // nil if the fault was over at once
	recorded []history.Call
}

// faultWeights are how often faults are drawn that need more schedules than others. The others have 1.
var faultWeights = map[string]int{"rollback": 5, "rollback-to-the-same-versions": 2}

// catalog are all faults, in the order of their classes.
var catalog []Fault

// Catalog returns all faults.
func Catalog() []Fault { return slices.Clone(catalog) }

// addFaults adds faults to the catalog, and a step for each.
func addFaults(faults ...Fault) {
	for _, f := range faults {
		catalog = append(catalog, f)
		addStep(f, max(1, faultWeights[f.Name]))
	}
	slices.SortStableFunc(catalog, func(a, b Fault) int { return a.Class - b.Class })
}

// addStep adds the step that injects a fault. It is drawn as often as its weight says.
func addStep(f Fault, weight int) {
	op := &operation{weight: weight, run: func(w *World, s Step) { w.inject(f, s.Args) }}
	switch f.Scope {
	case OfKind:
		op.args = []bounds{{max: 2}}
	case OfObjects:
		op.args, op.rest = []bounds{anyObject}, &anyObject
	case OfOneServer:
		op.args = []bounds{{max: servers - 1}}
	}
	operations["inject "+f.Name] = op
}

// maxFaults is how many faults there are at a time.
const maxFaults = 3

// inject injects a fault. The arguments are the numbers of the objects, or that of the kind or the API server.
func (w *World) inject(f Fault, args []int) {
	if len(w.faults) >= maxFaults {
		return
	}
	f.Within += w.options.Recovery
	w.alone.Store(w.isQuiet())
	w.begun.Add(1)
	for _, o := range w.objects {
		o.forgetRetryAfter()
	}
	t := Target{world: w, scope: f.Scope}
	switch f.Scope {
	case OfKind:
		t.kind = Step{Args: args}.arg(0) % len(w.kinds)
	case OfObjects:
		for _, i := range args {
			if o := w.objectAt(i); !slices.Contains(t.objects, o) {
				t.objects = append(t.objects, o)
			}
		}
		if len(t.objects) == 0 {
			return
		}
	case OfOneServer:
		t.server = Step{Args: args}.arg(0) % servers
	}
	active := &activeFault{Fault: f, target: t, recorded: w.record(f, t)}
	if active.heal = f.Inject(w, t); active.heal == nil {
		w.end(active)
		return
	}
	w.faults = append(w.faults, active)
}

// record records the begin of a fault.
func (w *World) record(f Fault, t Target) []history.Call {
	switch f.Scope {
	case OfOneServer:
		return []history.Call{w.recorder.PartialFault(f.Name, f.Within)}
	case OfServer, OfKind, OfObjects:
	}
	var affected []history.Object
	if f.Scope != OfServer {
		affected = recordedOf(t.Objects())
	}
	works, unread := w.works(f, t)
	calls := []history.Call{w.recorder.VerbFault(f.Name, f.Within, works, affected...)}
	if len(unread) > 0 {
		calls = append(calls, w.recorder.Fault(f.Name, f.Within, recordedOf(unread)...))
	}
	return calls
}

func recordedOf(objects []*Object) (recorded []history.Object) {
	for _, o := range objects {
		recorded = append(recorded, o.Object)
	}
	return recorded
}

// heal ends a fault.
func (w *World) heal(i int) {
	if i < len(w.faults) {
		f := w.faults[i]
		w.faults = slices.Delete(w.faults, i, i+1)
		f.heal()
		w.end(f)
	}
}

// end records the end of a fault.
func (w *World) end(f *activeFault) {
	for _, call := range f.recorded {
		call.End()
	}
	quiet := time.Now().Add(f.Within)
	if quiet.After(w.quietFrom) {
		w.quietFrom = quiet
	}
	if f.Name == eventsLost {
		for _, o := range f.target.Objects() {
			o.misledUntil = quiet
		}
	}
}

// misleads reports whether the server may have reported a version of an object that is newer than the state that it has
// sent. A Get that demands the version of the newest write may then return an older state: a bookmark follows the
// events that were lost, and after a restore versions come again. An immutable object that was restored is read again
// late.
func (w *World) misleads(o *Object) bool {
	lost := slices.ContainsFunc(w.faults, func(f *activeFault) bool {
		return f.Name == eventsLost && slices.Contains(f.target.Objects(), o)
	})
	now := time.Now()
	restored := w.restores.Load() > 0 && (len(w.faults) > 0 || now.Before(w.quietFrom.Add(recheckBound+w.settings.freshBound())))
	return lost || now.Before(o.misledUntil) || restored
}

// isQuiet reports whether there is no fault, and what faults have delayed must have arrived.
func (w *World) isQuiet() bool { return len(w.faults) == 0 && !time.Now().Before(w.quietFrom) }
