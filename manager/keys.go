// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// collector gathers the keys that one call names. It comes from a pool, for most
// registrations bring nothing new: they then allocate nothing.
type collector struct {
	namespace string // of the names that are visited
	keys      []types.NamespacedName
	visit     func(name string) // add; kept because to make it allocates
}

var collectors = sync.Pool{New: func() any {
	c := &collector{}
	c.visit = c.add
	return c
}}

// collect returns an empty collector, to be released after use.
func collect() *collector { return collectors.Get().(*collector) }

// release empties the collector, lest the pool keep strings of a pod that is
// long gone, and gives it back.
func (c *collector) release() {
	clear(c.keys)
	c.namespace, c.keys = "", c.keys[:0]
	collectors.Put(c)
}

// add takes a name. One that follows itself, as in the environment of a container
// that takes many variables from one Secret, is left out here already, because
// that is cheaper than to sort it.
func (c *collector) add(name string) {
	if last := len(c.keys) - 1; last >= 0 && c.keys[last].Name == name {
		return
	}
	c.keys = append(c.keys, types.NamespacedName{Namespace: c.namespace, Name: name})
}

// missing yields those of the keys that are not among others. Both are in order,
// so one walk along the two is enough.
func missing(keys, others []types.NamespacedName) iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		rest := others
		for _, key := range keys {
			for len(rest) > 0 && compare(rest[0], key) < 0 {
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

// compare orders by name first: the keys of a pod share their namespace, so that
// one comparison mostly does.
func compare(a, b types.NamespacedName) int {
	if order := strings.Compare(a.Name, b.Name); order != 0 {
		return order
	}
	return strings.Compare(a.Namespace, b.Namespace)
}
