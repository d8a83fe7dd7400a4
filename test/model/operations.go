// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// operation is what a step does, and how rapid draws one.
type operation struct {
	weight int // how often it is drawn; 0 is never
	// args are the bounds of the arguments.
	args []bounds
	// rest are those of up to four more arguments. Default: no more.
	rest *bounds

	activity bool // it is also drawn in a run of the matrix

	run func(*World, Step)
	set func(*settings, Step) // for a step that is applied before the first one
}

// bounds are what an argument may be: a value of the list, the number of an object, or else a number up to max.
type bounds struct {
	list   []int
	object bool
	max    int
}

const opQuick = "quick"

var (
	anyObject = bounds{object: true}
	anyOwner  = bounds{max: 5}
	anyBool   = bounds{max: 1}
	timeouts  = bounds{list: []int{1, 50, 500, 1000, 5000, 20000}}
	pauses    = bounds{list: []int{1, 20, 100, 300, 1000, 1500, 3000, 6000, 16000, 61000, 130000, 700000}}
)

// operations are all by their names. addFaults adds those of faults.
var operations = map[string]*operation{
	"put":              {weight: 10, activity: true, args: []bounds{anyObject, anyBool}, run: func(w *World, s Step) { w.put(w.objectAt(s.arg(0)), s.arg(1) == 1) }},
	"delete":           {weight: 4, activity: true, args: []bounds{anyObject}, run: func(w *World, s Step) { w.remove(w.objectAt(s.arg(0))) }},
	"delete-namespace": {weight: 1, args: []bounds{anyBool}, run: func(w *World, s Step) { w.removeNamespace(w.namespaces[s.arg(0)%len(w.namespaces)]) }},
	"backup":           {weight: 1, activity: true, run: func(w *World, _ Step) { w.snapshot() }},

	"register":   {weight: 14, activity: true, args: []bounds{anyOwner}, rest: &anyObject, run: func(w *World, s Step) { w.register(s.arg(0), s.Args[min(1, len(s.Args)):]) }},
	"unregister": {weight: 5, activity: true, args: []bounds{anyOwner}, run: func(w *World, s Step) { w.register(s.arg(0), nil) }},
	"replace":    {weight: 2, activity: true, args: []bounds{anyOwner, anyBool}, run: func(w *World, s Step) { w.replace(s.arg(0), s.arg(1) == 1) }},

	"reference": {weight: 4, activity: true, args: []bounds{{max: 2}, anyObject}, run: func(w *World, s Step) { w.reference(s.arg(0), w.objectAt(s.arg(1))) }},
	"release":   {weight: 2, activity: true, args: []bounds{anyObject}, run: func(w *World, s Step) { w.release(w.objectAt(s.arg(0))) }},

	"get": {weight: 10, activity: true, args: []bounds{anyObject, timeouts}, run: func(w *World, s Step) { w.get(w.objectAt(s.arg(0)), s.duration(1)) }},
	"try": {weight: 4, activity: true, args: []bounds{anyObject}, run: func(w *World, s Step) { w.tryGet(w.objectAt(s.arg(0))) }},
	"live": {weight: 3, activity: true, args: []bounds{anyObject, timeouts}, run: func(w *World, s Step) {
		w.getWithOptions(w.objectAt(s.arg(0)), s.duration(1), objectcache.GetOptions{Live: true})
	}},
	"newest": {weight: 3, activity: true, args: []bounds{anyObject, timeouts}, run: func(w *World, s Step) {
		state, _ := w.objectAt(s.arg(0)).current()
		w.getWithOptions(w.objectAt(s.arg(0)), s.duration(1), objectcache.GetOptions{NotOlderThan: state.Version})
	}},
	"not-staler": {weight: 2, activity: true, args: []bounds{anyObject, timeouts, pauses}, run: func(w *World, s Step) {
		w.getWithOptions(w.objectAt(s.arg(0)), s.duration(1), objectcache.GetOptions{MaxStaleness: s.duration(2)})
	}},
	"put-and-get": {weight: 4, activity: true, args: []bounds{anyObject, timeouts, anyBool}, run: func(w *World, s Step) {
		o := w.objectAt(s.arg(0))
		w.put(o, false)
		state, _ := o.current()
		w.getWithOptions(o, s.duration(1), objectcache.GetOptions{Live: s.arg(2) == 1, NotOlderThan: state.Version})
	}},
	"loop": {weight: 2, activity: true, args: []bounds{anyObject, pauses}, run: func(w *World, s Step) { w.loop(w.objectAt(s.arg(0)), s.duration(1)) }},

	"restart":  {run: func(w *World, _ Step) { w.restart() }},
	"populate": {run: func(w *World, _ Step) { w.populate() }},

	"follow":   {weight: 2, run: func(w *World, _ Step) { w.follow() }},
	"unfollow": {weight: 1, args: []bounds{anyBool}, run: func(w *World, s Step) { w.unfollow(s.arg(0)) }},

	"heal":           {weight: 5, args: []bounds{anyBool}, run: func(w *World, s Step) { w.heal(s.arg(0)) }},
	"sleep":          {weight: 16, activity: true, args: []bounds{pauses}, run: func(_ *World, s Step) { sleep(s.duration(0)) }},
	"block-follower": {weight: 1, activity: true, args: []bounds{{max: 2}, pauses}, run: func(w *World, s Step) { w.blockFollower(s.arg(0), s.duration(1)) }},
	"expedite":       {weight: 2, args: []bounds{{max: 2}}, run: func(w *World, s Step) { w.expedite(s.arg(0)) }},

	"check": {weight: 2, run: func(w *World, _ Step) { w.checkQuiet() }},
	"probe": {weight: 4, activity: true, args: []bounds{{max: 2}}, run: func(w *World, s Step) { w.probe(s.arg(0)) }},
	opQuick: {weight: 3, args: []bounds{{list: []int{2, 5, 10}}}}, // the next steps do not wait for what the ones before cause

	"with objects":         {set: func(s *settings, step Step) { s.objects = max(1, step.arg(0)) }},
	"with idle-timeout":    {set: func(s *settings, step Step) { s.watch.IdleTimeout = step.duration(0) }},
	"with max-staleness":   {set: func(s *settings, step Step) { s.watch.MaxStaleness = step.duration(0) }},
	"with ttl":             {set: func(s *settings, step Step) { s.ttl = step.duration(0) }},
	"with direct":          {set: func(s *settings, _ Step) { s.direct = true }},
	"with busy":            {set: func(s *settings, step Step) { s.busy = step.duration(0) }},
	"with latency":         {set: func(s *settings, step Step) { s.latency = step.duration(0) }},
	"with size":            {set: func(s *settings, step Step) { s.size = step.arg(0) << 10 }},
	"with transform":       {set: func(s *settings, _ Step) { s.transforms = true }},
	"with rest-widgets":    {set: func(s *settings, _ Step) { s.restWidgets = true }},
	"with watch-immutable": {set: func(s *settings, _ Step) { s.watch.WatchImmutable = true }},
	"with blocking":        {set: func(s *settings, _ Step) { s.blocking = true }},
	"with no-watchlist":    {set: func(s *settings, _ Step) { s.server.DisableWatchList = true }},
	"with streams":         {set: func(s *settings, step Step) { s.server.MaxStreamsPerConnection = step.arg(0) }},
}

// objectAt returns an object.
func (w *World) objectAt(i int) *Object { return w.objects[i%w.settings.objects] }

// reference adds an object to those that a pod of its namespace references.
func (w *World) reference(number int, o *Object) {
	pod := w.ownerAt(number*len(w.namespaces) + slices.Index(w.namespaces, o.Key.Namespace))
	if !slices.Contains(pod.objects, o) {
		w.set(pod, append(slices.Clone(pod.objects), o))
	}
}

// release removes all references to an object.
func (w *World) release(o *Object) {
	for _, number := range slices.Sorted(maps.Keys(w.owners)) {
		owner := w.owners[number]
		if i := slices.Index(owner.objects, o); i >= 0 {
			w.set(owner, slices.Delete(slices.Clone(owner.objects), i, i+1))
		}
	}
}

// blockFollower ranges over the changes of a kind, and does not return from the first one for a time. It must delay
// nobody else.
func (w *World) blockFollower(kind int, period time.Duration) {
	s, ok := w.subjects[kind%len(w.subjects)].(Follower)
	if !ok {
		return
	}
	w.calls.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, min(period, time.Minute))
		defer cancel()
		s.Follow(ctx, func(types.NamespacedName, metav1.Object, error) { <-ctx.Done() })
	})
}

// expeditedBound is how soon after its end a failure of one object is over for a Get: the attempts of an object that a
// Get waits for follow each other after 1.1 to 1.6 s.
const expeditedBound = 2 * time.Second

// expedite registers an object that cannot be read for so long that its attempts are rare, and checks that a Get
// returns it soon after that is over: L4.
func (w *World) expedite(kind int) {
	kind %= len(w.kinds)
	if !w.isQuiet() {
		return // others may fail
	}
	o := w.newObject()
	for o.Kind != kind {
		o = w.newObject()
	}
	w.put(o, false)
	fault := w.recorder.Fault("unreadable", usualRecovery, o.Object)
	heal := w.intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if w.object(request) == o {
			return internalError(request)
		}
		return nil
	})
	w.late++
	owner := w.ownerAt(firstLateOwner + w.late*len(w.namespaces) + slices.Index(w.namespaces, o.Key.Namespace))
	w.set(owner, []*Object{o})
	sleep(longFailure)
	heal()
	fault.End()
	bound := expeditedBound + 2*w.settings.latency // of an attempt that still fails, and of the next one
	if state, err := w.getNow(o, bound); err != nil {
		w.violate("L4", o, "can be read again: got %s within %v, want the object", seen{state, err}, bound)
	}
	w.set(owner, nil)
}

// longFailure is how long an object must fail until its attempts are the longest pause apart.
const longFailure = 2 * time.Minute
