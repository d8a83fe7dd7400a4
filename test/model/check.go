// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// probeBound is how soon the Get of a new, healthy object returns, whatever others do.
	probeBound = 5 * time.Second
	// idleBound is how soon connections without streams are closed.
	idleBound = 91 * time.Second
	// firstLateOwner is the number of the first owner that the checks themselves make.
	firstLateOwner = 1000
)

// mostChecked is how many objects there may be for their keys to be checked after each step.
const mostChecked = 100

// checkKeys compares what the managers hold with what the owners reference: S5.
func (w *World) checkKeys(after Step) {
	for kind, s := range w.subjects {
		s, ok := s.(Lister)
		if !ok {
			continue
		}
		held := map[types.NamespacedName]int{}
		for status := range s.Statuses() {
			held[status.Key] = len(status.Owners)
		}
		for _, o := range w.objects {
			if o.Kind == kind && held[o.Key] != o.owners {
				w.violate("S5", o, "after %q: got %d owners, want %d", after, held[o.Key], o.owners)
			}
		}
	}
}

// checkQuiet checks that all is fresh, if there was no fault for long enough.
func (w *World) checkQuiet() {
	if !w.isQuiet() {
		return
	}
	sleep(w.settings.freshBound())
	w.checkFresh("at a quiet moment", w.referenced())
	w.checkShared(w.referenced())
	w.checkStreams()
}

// checkFresh checks that Get returns what the server has, of each of the objects that is watched.
func (w *World) checkFresh(when string, objects []*Object) {
	w.getAll(objects, func(o *Object, got seen) {
		if o.notices() && !o.isCurrent(got.state, got.err) {
			current, _ := o.current()
			w.violate("L1", o, "%s: got %s, want %s", when, got, current)
		}
	})
}

// getAll calls Get for all objects at once, and then check for each.
func (w *World) getAll(objects []*Object, check func(*Object, seen)) {
	results := make([]seen, len(objects))
	var calls sync.WaitGroup
	for i, o := range objects {
		calls.Go(func() { results[i].state, results[i].err = w.getNow(o, probeBound) })
	}
	calls.Wait()
	for i, o := range objects {
		check(o, results[i])
	}
}

// checkStreams checks that each referenced object has at most one stream, and that no other has one: S6, L2.
func (w *World) checkStreams() {
	synctest.Wait()
	for _, o := range w.objects {
		got := w.server.OpenStreams(w.kinds[o.Kind].resource.String(), o.Key)
		want := min(1, o.owners) * max(1, w.options.Streams)
		if got > want {
			w.violate("S6", o, "got %d streams, want at most %d", got, want)
		}
	}
}

// probe registers an object that no fault affects, and checks that Get returns it soon: L4.
func (w *World) probe(kind int) {
	kind %= len(w.kinds)
	bound := probeBound
	for _, f := range w.faults {
		beside := f.Class == silentServer && len(w.faults) == 1 && w.settings.avoidsServers()
		if f.Scope == OfServer || f.Scope == OfOneServer && !beside || f.Scope == OfKind && f.target.kind == kind {
			return
		}
		if beside { // some dials in a row may hang: see docs/promises.md, "Connections"
			bound = 3 * probeBound
		}
	}
	if time.Now().Before(w.quietFrom) {
		return
	}
	o := w.newObject()
	for o.Kind != kind {
		o = w.newObject()
	}
	w.put(o, false)
	w.late++
	owner := w.ownerAt(firstLateOwner + w.late*len(w.namespaces) + slices.Index(w.namespaces, o.Key.Namespace))
	w.set(owner, []*Object{o})
	if state, err := w.getNow(o, bound); err != nil {
		w.violate("L4", o, "is new and healthy: got %s within %v, want the object", seen{state, err}, bound)
	}
	w.set(owner, nil)
}

// finish heals all faults, checks that all becomes fresh and stays so, removes all owners, and checks that nothing is
// left. It stops subjects that keep what was referenced.
func (w *World) finish(stop func()) {
	for len(w.faults) > 0 {
		w.heal(0)
	}
	w.calls.Wait()
	w.follow()
	sleep(max(time.Until(w.quietFrom), 0) + w.settings.freshBound())
	objects := w.referenced()
	w.checkFresh("in the end", objects)
	w.checkShared(objects)
	w.checkLateOwners(objects)
	for _, subject := range w.subjects {
		w.output.addSubject(subject)
	}
	sleep(w.settings.freshBound())
	w.unfollow(0) // it has yielded the states for the new owners, and not because they changed
	for _, o := range sample(objects) {
		state, _ := o.current()
		w.put(o, state.Immutable)
	}
	sleep(w.settings.freshBound())
	w.checkFresh("after another write", objects)
	w.checkFollowers(objects)
	w.checkStreams()
	for len(w.followers) > 0 {
		w.unfollow(0)
	}
	if w.options.Lasting {
		stop()
	}
	for _, o := range w.owners {
		w.set(o, nil)
	}
	w.checkKeys(Step{Op: "the end"})
	sleep(releasedBound)
	synctest.Wait()
	w.checkStreams()
	before := w.requests.Load()
	sleep(idleBound)
	if got := w.requests.Load() - before; got > 0 {
		w.violate("S7", nil, "a second after the last reference: got %d more requests, want none", got)
	}
	if requests, gets := w.requests.Load(), w.gets.Load(); w.settings.direct && w.begun.Load() == 0 && requests > gets {
		w.violate("L3", nil, "%d Gets of DirectStores have sent %d requests, want one each", gets, requests)
	}
	if got := w.network.Counts().Open; got > 0 {
		w.violate("L2", nil, "%v after the last reference: got %d connections, want none", idleBound, got)
	}
}

// maxSample is how many objects are written in the end. It is more than most schedules have.
const maxSample = 100

// sample returns some of the objects, spread evenly.
func sample(objects []*Object) (some []*Object) {
	step := max(1, len(objects)/maxSample)
	for i := 0; i < len(objects); i += step {
		some = append(some, objects[i])
	}
	return some
}

// checkLateOwners checks that a new owner of each object gets its newest state, also of an immutable one: S3.
func (w *World) checkLateOwners(objects []*Object) {
	w.late++
	synctest.Wait()
	clear(w.kept)
	for i, namespace := range w.namespaces {
		var own []*Object
		for _, o := range objects {
			if o.Key.Namespace == namespace {
				own = append(own, o)
			}
		}
		w.set(w.ownerAt(firstLateOwner+w.late*len(w.namespaces)+i), own)
	}
	synctest.Wait()
	w.checkKept(Step{Op: "a new owner"})
	w.getAll(objects, func(o *Object, got seen) {
		if o.gap.Load() == nil && !o.isCurrent(got.state, got.err) {
			current, _ := o.current()
			w.violate("S3", o, "after a new owner: got %s, want %s", got, current)
			return
		}
		o.unwatched = w.isUnwatched(got.state)
	})
}

// checkFollowers checks that each follower has seen the last state of each object that is watched: S10.
func (w *World) checkFollowers(objects []*Object) {
	synctest.Wait()
	for i, f := range w.followers {
		f.mu.Lock()
		for _, o := range objects {
			if _, follows := w.subjects[o.Kind].(Follower); !follows || !o.notices() {
				continue
			}
			current, _ := o.current()
			if last, ok := f.last[o]; !ok {
				w.violate("S10", o, "follower %d has seen no state, want %s", i, current)
			} else if !o.isCurrent(last.state, last.err) {
				w.violate("S10", o, "follower %d has last seen %s, want %s", i, last, current)
			}
		}
		f.mu.Unlock()
	}
}
