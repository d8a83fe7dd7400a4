// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// table maps keys to entries. load takes no lock, and the other methods are called with one. A
// sync.Map would hash each key through an interface, which takes half of a Get, and keep a
// hundred bytes for an entry.
//
// It is a hash table with linear probing. A table that is full, or nearly empty, is replaced: who
// reads the old one meanwhile has what it held then.
type table[T cache.Object] struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]slot[T]]
	used  int // slots with a hash
	count int // entries
}

// slot holds an entry. Its hash is written once, after the entry.
type slot[T cache.Object] struct {
	hash  atomic.Uint64            // 0: the slot was never used
	entry atomic.Pointer[entry[T]] // nil: it was removed
}

// smallestTable is the number of slots of a table with few entries. It is a power of two, as each
// number of slots is.
const smallestTable = 8

func newTable[T cache.Object]() *table[T] {
	t := &table[T]{seed: maphash.MakeSeed()}
	t.replace(smallestTable)
	return t
}

func (t *table[T]) hash(key types.NamespacedName) uint64 {
	return max(1, maphash.Comparable(t.seed, key))
}

// load returns the entry of a key, nil if there is none.
func (t *table[T]) load(key types.NamespacedName) *entry[T] {
	hash, slots := t.hash(key), *t.slots.Load()
	for i := hash; ; i++ {
		switch s := &slots[i&uint64(len(slots)-1)]; s.hash.Load() {
		case 0:
			return nil
		case hash:
			if e := s.entry.Load(); e != nil && e.key == key {
				return e
			}
		}
	}
}

// store adds the entry of a key that has none.
func (t *table[T]) store(e *entry[T]) {
	slots := *t.slots.Load()
	if 4*(t.used+1) > 3*len(slots) {
		t.replace(max(smallestTable, 1<<bits.Len(uint(2*t.count))))
		slots = *t.slots.Load()
	}
	if put(slots, t.hash(e.key), e) {
		t.used++
	}
	t.count++
}

// put writes an entry into a slot. It returns true if that was never used. A slot is used again for the same
// hash only: load may have read that, and not yet the entry.
func put[T cache.Object](slots []slot[T], hash uint64, e *entry[T]) (unused bool) {
	for i := hash; ; i++ {
		s := &slots[i&uint64(len(slots)-1)]
		switch s.hash.Load() {
		case 0:
			s.entry.Store(e)
			s.hash.Store(hash)
			return true
		case hash:
			if s.entry.CompareAndSwap(nil, e) {
				return false
			}
		}
	}
}

// remove removes the entry of a key that has one.
func (t *table[T]) remove(key types.NamespacedName) {
	hash, slots := t.hash(key), *t.slots.Load()
	for i := hash; ; i++ {
		s := &slots[i&uint64(len(slots)-1)]
		if e := s.entry.Load(); e != nil && e.key == key {
			s.entry.Store(nil)
			break
		}
	}
	if t.count--; len(slots) > smallestTable && 8*t.count < len(slots) {
		t.replace(max(smallestTable, len(slots)/4))
	}
}

// replace copies the entries into a table of that many slots.
func (t *table[T]) replace(size int) {
	slots := make([]slot[T], size)
	if t.slots.Load() != nil {
		for e := range t.all() {
			put(slots, t.hash(e.key), e)
		}
	}
	t.used = t.count
	t.slots.Store(&slots)
}

// all yields the entries.
func (t *table[T]) all() iter.Seq[*entry[T]] {
	return func(yield func(*entry[T]) bool) {
		slots := *t.slots.Load()
		for i := range slots {
			if e := slots[i].entry.Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}
