// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mostLent is how many objects of a run are compared in the end.
const mostLent = 64

// lent are objects that the subjects have returned. Callers may keep them, so they must stay as they were: S9.
type lent struct {
	mu      sync.Mutex
	objects map[metav1.Object][sha256.Size]byte // the hash of each when it was returned first
}

// add remembers an object.
func (l *lent) add(object metav1.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.objects[object]; !ok && len(l.objects) < mostLent {
		l.objects[object] = hashOf(object)
	}
}

// checkLent checks that no object has changed since it was returned.
func (w *World) checkLent() {
	w.lent.mu.Lock()
	defer w.lent.mu.Unlock()
	for object, hash := range w.lent.objects {
		if hashOf(object) != hash {
			w.violate("S9", nil, "%s/%s at version %s has changed since a Get has returned it", object.GetNamespace(), object.GetName(),
				object.GetResourceVersion())
		}
	}
}

// hashOf returns a hash of all fields of an object.
func hashOf(object metav1.Object) [sha256.Size]byte {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(err) // it is no API object
	}
	return sha256.Sum256(encoded)
}

// checkShared checks that Gets of one state return the same object, and no copies: S9.
func (w *World) checkShared(objects []*Object) {
	if w.settings.direct { // it keeps nothing
		return
	}
	for _, o := range objects {
		s, ok := w.subjects[o.Kind].(Demander)
		if !ok {
			continue
		}
		first, err1 := s.TryGet(o.Key.Namespace, o.Key.Name)
		second, err2 := s.TryGet(o.Key.Namespace, o.Key.Name)
		if err1 == nil && err2 == nil && first != second && first.GetResourceVersion() == second.GetResourceVersion() {
			w.violate("S9", o, "two Gets of version %s have returned two objects, want the same one", first.GetResourceVersion())
		}
	}
}
