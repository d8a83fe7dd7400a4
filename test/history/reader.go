// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// BeginReference is called before a reference is added, and EndReference afterwards.
func (o *Object) BeginReference() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.possible == 0 {
		o.floor = max(o.floor, o.acked)
	}
	o.possible++
	o.added++
}

// EndReference is called when a reference has been added.
func (o *Object) EndReference() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.certain++
}

// BeginRelease is called before a reference is deleted, and EndRelease afterwards.
func (o *Object) BeginRelease() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.certain--; o.certain == 0 {
		o.lost++
		o.synced = false
	}
}

// EndRelease is called when a reference has been deleted.
func (o *Object) EndRelease() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.possible--
}

// Referenced reports whether the cache has a reference to the object.
func (o *Object) Referenced() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.certain > 0
}

// Get is a call of Get or TryGet. [Object.BeginGet] returns one.
type Get struct {
	object     *Object
	floor      int
	lost       int
	referenced bool
	synced     bool
}

// BeginGet is called before a Get. The caller then calls [Get.Return].
func (o *Object) BeginGet() Get {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Get{object: o, floor: o.floor, lost: o.lost, referenced: o.certain > 0, synced: o.synced}
}

// Return checks what a Get has returned. It reports whether that is the newest acknowledged state. If err is not nil,
// the state is ignored.
func (g Get) Return(s State, err error) (fresh bool) {
	o := g.object
	o.mu.Lock()
	defer o.mu.Unlock()
	throughout := g.referenced && o.lost == g.lost // an owner referenced the object all the time
	switch {
	case err == nil || apierrors.IsNotFound(err):
		number, ok := o.observeLocked(s, err, g.floor, "Get")
		if !ok {
			return false
		}
		o.floor = max(o.floor, number)
		o.synced = o.synced || throughout
		return number == o.acked
	case errors.Is(err, objectcache.ErrNotRegistered):
		if throughout {
			o.history.Violate("%s: Get returned an error while an owner referenced the object: %v", o.name, err)
		}
	case errors.Is(err, objectcache.ErrNotSynced):
		if throughout && g.synced {
			o.history.Violate("%s: Get returned an error after it had returned a state: %v", o.name, err)
		}
	default:
		o.history.Violate("%s: Get returned an unexpected error: %v", o.name, err)
	}
	return false
}

// Yield checks what Changes has yielded: a state, or the error that the object is absent. One loop over Changes calls
// it.
func (o *Object) Yield(s State, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && !apierrors.IsNotFound(err) {
		o.history.Violate("%s: Changes yielded an unexpected error: %v", o.name, err)
		return
	}
	number, ok := o.observeLocked(s, err, o.yielded, "Changes")
	if !ok {
		return
	}
	if number == o.yielded && number > 0 {
		if o.repeats++; o.repeats > o.added {
			o.history.Violate("%s: Changes yielded states again %d times, and there were %d new owners", o.name, o.repeats, o.added)
		}
	}
	o.yielded = number
}

// YieldedNewest reports whether Changes has yielded the newest acknowledged state.
func (o *Object) YieldedNewest() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.yielded == o.acked
}

// observeLocked returns the number of the write whose state a reader has returned. It returns false if that is a
// violation: the state is older than a write, or nobody wrote it.
func (o *Object) observeLocked(s State, err error, floor int, reader string) (number int, ok bool) {
	o.history.checked.Add(1)
	if err != nil {
		if number, ok = o.absentLocked(floor); !ok {
			o.history.Violate("%s: %s reported the object as absent, and it existed since write %d", o.name, reader, floor)
		}
		return number, ok
	}
	w := o.writeLocked(s.Write)
	switch {
	case s.Write <= 0 || s.Write > o.last || w != nil && (w.deleted || w.failed):
		o.history.Violate("%s: %s returned write %d, which is none; the newest is %d", o.name, reader, s.Write, o.last)
		return 0, false
	case s.Write < floor:
		o.history.Violate("%s: %s returned write %d (version %s), older than write %d", o.name, reader, s.Write, s.Version, floor)
		return 0, false
	}
	if w != nil {
		o.identifyLocked(w, s, reader)
	}
	return s.Write, true
}
