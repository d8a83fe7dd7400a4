// SPDX-License-Identifier: Apache-2.0

package derived

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
)

// valueCell is the value of one version of an object.
type valueCell[E, V any] struct {
	object weak.Pointer[E]
	uid    types.UID
	once   sync.Once
	value  V
	err    error
	done   atomic.Bool // value and err are set
	// previous is the cell of an earlier version of the object that has a value, or may get
	// one. It is nil once this cell has a value, and always without KeepLast.
	previous atomic.Pointer[valueCell[E, V]]
}

// newest returns the first of c and the cells before it that has a value or may get one; nil
// if none does.
func (c *valueCell[E, V]) newest() *valueCell[E, V] {
	for c != nil && c.done.Load() && c.err != nil {
		c = c.previous.Load()
	}
	return c
}

// last returns the first of c and the cells before it that has a value; nil if none has.
func (c *valueCell[E, V]) last() *valueCell[E, V] {
	for c != nil {
		previous := c.previous.Load() // before done: it is cleared after done is set
		if c.done.Load() && c.err == nil {
			return c
		}
		c = previous
	}
	return nil
}

// cellOf is a cell of a key, for the cleanup of its object. It keeps neither the cell nor the
// derivation, which the program may have dropped.
type cellOf[E any, T pointer[E], V any] struct {
	derivation weak.Pointer[derivation[E, T, V]]
	key        types.NamespacedName
	cell       weak.Pointer[valueCell[E, V]]
}

// drop drops the cell of an object that has left memory. A cell whose value is to be kept
// stays while the object is referenced: its next version may have come, and no Get since.
func (of cellOf[E, T, V]) drop() {
	d, cell := of.derivation.Value(), of.cell.Value()
	if d == nil || cell == nil {
		return
	}
	if held, _ := d.cells.Load(of.key); held != any(cell) {
		return
	}
	if d.keep && cell.last() != nil && d.isReferenced(of.key) {
		runtime.AddCleanup(new(garbage), cellOf[E, T, V].drop, of) // look again after the next garbage collection
		return
	}
	d.cells.CompareAndDelete(of.key, cell)
}

// garbage is large enough to be collected by itself.
type garbage [64]byte

// isReferenced reports whether a Get may find the object of a key again. It is no Get, which
// would count, and could take a reference.
func (d *derivation[E, T, V]) isReferenced(key types.NamespacedName) bool {
	reader, ok := d.reader.(interface {
		Status(namespace, name string) (objectcache.Status, bool)
	})
	if !ok {
		return true
	}
	status, referenced := reader.Status(key.Namespace, key.Name)
	return referenced && status.Phase != objectcache.PhaseStopped && (status.Exists || !status.Synced)
}

// keepingLast implements [Values.KeepLast].
func (d *derivation[E, T, V]) keepingLast() *Values[V] {
	return &Values[V]{&derivation[E, T, V]{reader: d.reader, derive: d.derive, keep: true}}
}

// failure implements [Values.Err].
func (d *derivation[E, T, V]) failure(key types.NamespacedName) error {
	if cell, ok := d.cells.Load(key); ok && cell.(*valueCell[E, V]).done.Load() {
		return cell.(*valueCell[E, V]).err
	}
	return nil
}
