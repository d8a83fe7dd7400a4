// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/history"
)

// owner is a pod.
type owner struct {
	number    int
	namespace string
	uid       types.UID
	successor int // how many pods of the name there were before it
	objects   []*Object
}

// ownerAt returns an owner. Those with an even number are in another namespace than those with an odd one.
func (w *World) ownerAt(number int) *owner {
	o := w.owners[number]
	if o == nil {
		o = &owner{number: number, namespace: w.namespaces[number%len(w.namespaces)]}
		o.identify()
		w.owners[number] = o
	}
	return o
}

func (o *owner) name() string { return fmt.Sprint("pod-", o.number) }

func (o *owner) identify() {
	o.uid = types.UID(fmt.Sprintf("%s-%d", o.name(), o.successor))
}

// register sets the references of an owner to objects of its namespace, by their numbers.
func (w *World) register(number int, indexes []int) {
	o := w.ownerAt(number)
	var own, objects []*Object
	for _, object := range w.objects[:w.settings.objects] {
		if object.Key.Namespace == o.namespace {
			own = append(own, object)
		}
	}
	for _, index := range indexes {
		if len(own) > 0 && !slices.Contains(objects, own[index%len(own)]) {
			objects = append(objects, own[index%len(own)])
		}
	}
	w.set(o, objects)
}

// set sets the references of an owner.
func (w *World) set(o *owner, objects []*Object) {
	var calls []history.Call
	for _, object := range objects {
		w.keep(object)
		if slices.Contains(o.objects, object) {
			continue
		}
		calls = append(calls, object.BeginReference(string(o.uid)))
		state, _ := object.current()
		if object.owners == 0 {
			object.unwatched = w.isUnwatched(state)
		}
		object.owners++
		object.added()
	}
	for _, object := range o.objects {
		w.keep(object)
		if !slices.Contains(objects, object) {
			calls = append(calls, object.BeginRelease(string(o.uid)))
			if object.owners--; object.owners == 0 {
				w.kept[object] = lost
			}
		}
	}
	o.objects = objects
	w.setPod(o)
	for _, call := range calls {
		call.End()
	}
}

func (w *World) setPod(o *owner) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name(), UID: o.uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
	for _, object := range o.objects {
		w.kinds[object.Kind].refer(pod, object.Key.Name)
	}
	for _, s := range w.subjects {
		if len(o.objects) > 0 {
			s.RegisterPod(pod)
		} else {
			s.UnregisterPod(pod)
		}
	}
}

// replace replaces a pod by one with the same name and references. If both is set, the successor is registered before
// the pod is unregistered.
func (w *World) replace(number int, both bool) {
	before := *w.ownerAt(number)
	o, objects := w.ownerAt(number), before.objects
	o.successor++
	o.identify()
	o.objects = nil
	if both {
		w.set(o, objects)
		w.set(&before, nil)
	} else {
		w.set(&before, nil)
		w.set(o, objects)
	}
}

// objectsOfOwner is how many objects each owner of populate references.
const objectsOfOwner = 10

// populate creates nearly all objects, some of them immutable, and registers owners that reference all of them.
func (w *World) populate() {
	own := map[string][]*Object{}
	for i, o := range w.objects {
		if i%13 != 7 {
			w.put(o, i%11 == 5)
		}
		own[o.Key.Namespace] = append(own[o.Key.Namespace], o)
	}
	number := 0
	for i, namespace := range w.namespaces {
		for objects := range slices.Chunk(own[namespace], objectsOfOwner) {
			w.set(w.ownerAt(firstOwner+number*len(w.namespaces)+i), objects)
			number++
		}
	}
}

// firstOwner is the number of the first owner of populate.
const firstOwner = 10_000_000

// referenced returns the objects that owners reference.
func (w *World) referenced() (objects []*Object) {
	for _, o := range w.objects {
		if o.owners > 0 {
			objects = append(objects, o)
		}
	}
	return objects
}

// lost stands for the requests of an object whose last reference went in the step.
const lost = -1

// keep remembers an object that has a stream before its references change.
func (w *World) keep(o *Object) {
	if _, ok := w.kept[o]; !ok && o.owners > 0 && !w.options.Rereads && w.hasStream(o) {
		w.kept[o] = o.requests.Load()
	}
}

// silence is how long a stream must be silent to be compared with a list.
const silence = 2 * time.Minute

// hasStream reports whether an object has a stream that is well. That of the server alone may be one whose end has not
// arrived there, and one that was open during a restore ends as soon as anything proves the restore.
func (w *World) hasStream(o *Object) bool {
	if o.streams.Load() < int64(max(1, w.options.Streams)) || o.restores.Load() != w.restores.Load() {
		return false
	}
	s, ok := w.subjects[o.Kind].(StatusReader)
	if !ok {
		return true
	}
	status, _ := s.Status(o.Key.Namespace, o.Key.Name)
	served := status.Phase == objectcache.PhaseServing || status.Phase == objectcache.PhaseAbsent
	open := status.Failures == 0 && status.Waiting == nil && status.AskedAt.IsZero()
	return served && open && status.Stream != objectcache.StreamNone && time.Since(status.LastContact) < silence
}

// provedRestores returns how many streams were opened because a restore was proved.
func (w *World) provedRestores() (n uint64) {
	for _, s := range w.subjects {
		if s, ok := s.(interface{ Stats() objectcache.Stats }); ok {
			n += s.Stats().Opens["rolled_back"]
		}
	}
	return n
}

// checkKept checks that a step has caused no request for an object that had a stream and kept a reference: L3. All was
// at rest before the step, and is again. A read that the step has caused may prove a restore, which ends all streams.
func (w *World) checkKept(after Step) {
	if proved := w.provedRestores(); proved != w.proved {
		w.proved = proved
		return
	}
	for o, before := range w.kept {
		if got := o.requests.Load() - before; before != lost && got > 0 {
			w.violate("L3", o, "after %q: got %d requests, want none: it had a stream, and always an owner", after, got)
		}
	}
}

// restart restarts the subjects that can be: their references end, and the same owners are new ones.
func (w *World) restart() {
	restarters := map[int]Restarter{}
	for kind, s := range w.subjects {
		if s, ok := s.(Restarter); ok && s.Started() {
			restarters[kind] = s
		}
	}
	references := func(begin func(o *Object, owner string) history.Call) (calls []history.Call) {
		for _, number := range slices.Sorted(maps.Keys(w.owners)) {
			for _, o := range w.owners[number].objects {
				if restarters[o.Kind] != nil {
					calls = append(calls, begin(o, string(w.owners[number].uid)))
				}
			}
		}
		return calls
	}
	released := references(func(o *Object, owner string) history.Call {
		w.kept[o] = lost
		return o.BeginRelease(owner)
	})
	for _, s := range restarters {
		s.Stop()
	}
	for _, call := range released {
		call.End()
	}
	added := references(func(o *Object, owner string) history.Call {
		o.added()
		return o.BeginReference(owner)
	})
	for _, s := range restarters {
		s.Start()
	}
	for _, call := range added {
		call.End()
	}
}
