// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// keyBuffer collects the keys of one call. Buffers are pooled: most registrations
// change nothing, and then allocate nothing.
type keyBuffer struct {
	namespace string // of the names that are visited
	keys      []types.NamespacedName
	visit     func(name string) // add; a field because making it allocates
}

var keyBuffers = sync.Pool{New: func() any {
	b := &keyBuffer{}
	b.visit = b.add
	return b
}}

// getKeyBuffer returns an empty buffer. The caller frees it.
func getKeyBuffer() *keyBuffer { return keyBuffers.Get().(*keyBuffer) }

// free clears the buffer, so that the pool keeps no string of a pod, and returns it
// to the pool.
func (b *keyBuffer) free() {
	clear(b.keys)
	b.namespace, b.keys = "", b.keys[:0]
	keyBuffers.Put(b)
}

// add appends a name. It skips a repetition of the last name, because that is
// cheaper than sorting it: a container may take many variables from one Secret.
func (b *keyBuffer) add(name string) {
	if last := len(b.keys) - 1; last >= 0 && b.keys[last].Name == name {
		return
	}
	b.keys = append(b.keys, types.NamespacedName{Namespace: b.namespace, Name: name})
}

// difference yields the keys that are not in others. Both are sorted.
func difference(keys, others []types.NamespacedName) iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		rest := others
		for _, key := range keys {
			for len(rest) > 0 && compareKeys(rest[0], key) < 0 {
				rest = rest[1:]
			}
			if len(rest) > 0 && rest[0] == key {
				continue
			}
			if !yield(key) {
				return
			}
		}
	}
}

// compareKeys compares names first: the keys of a pod share their namespace, so
// mostly one comparison is enough.
func compareKeys(a, b types.NamespacedName) int {
	if order := strings.Compare(a.Name, b.Name); order != 0 {
		return order
	}
	return strings.Compare(a.Namespace, b.Namespace)
}
