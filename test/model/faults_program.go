// SPDX-License-Identifier: Apache-2.0

package model

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// transformBlocks needs a schedule "with transform".
const transformBlocks = "transform-blocks"

// The faults of the program that uses the library.
func init() {
	addFaults(Fault{43, transformBlocks, OfObjects, usualRecovery, func(w *World, t Target) func() {
		ended := make(chan struct{})
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, o := range t.Objects() {
			w.blocked[o.Key] = ended
		}
		return func() { close(ended) }
	}})
}

// transform is called by the subjects with each object before they store it. It blocks while a fault says so.
func (w *World) transform(object metav1.Object) {
	w.mu.Lock()
	ended := w.blocked[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}]
	w.mu.Unlock()
	if ended == nil {
		return
	}
	w.reached()
	<-ended
}
