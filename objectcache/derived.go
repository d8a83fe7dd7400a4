// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// Derived returns what a program derives from objects, such as the certificate that a
// Secret holds. It computes a value once for each version of an object. After that a
// Get neither computes nor allocates. Make one with [NewDerived].
type Derived[V any] struct {
	derivation interface {
		get(ctx context.Context, namespace, name string) (V, error)
		tryGet(namespace, name string) (V, error)
	}
}

// derivation is a Derived of objects of a type.
type derivation[E any, T pointer[E], V any] struct {
	reader Reader[T]
	derive func(T) (V, error)
	cells  sync.Map // types.NamespacedName to *derivedCell[E, V]
}

// pointer is an object type that is a pointer, as all are.
type pointer[E any] interface {
	*E
	cache.Object
}

// derivedCell is the value of one version of an object.
type derivedCell[E, V any] struct {
	object weak.Pointer[E]
	once   sync.Once
	value  V
	err    error
}

// NewDerived returns what derive computes from the objects of a reader: a store, or a
// manager.
//
//	certificates := objectcache.NewDerived(secrets, func(s *corev1.Secret) (*tls.Certificate, error) {
//		certificate, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
//		return &certificate, err
//	})
//
// derive is called by the first Get of each version. Gets that come meanwhile wait for
// it. It must not change the object. The value must not refer to the object itself, or
// the object stays in memory when its references have gone; parts of it may be used.
func NewDerived[E any, T pointer[E], V any](reader Reader[T], derive func(T) (V, error)) *Derived[V] {
	return &Derived[V]{&derivation[E, T, V]{reader: reader, derive: derive}}
}

// Get returns the value of an object, shared by all callers. It waits as the Get of the
// reader does, and returns its errors. An error or a panic of derive is returned by
// every Get of that version.
//
// A value leaves memory when its object does: with the next Get after the last
// reference, and in any case after the garbage collection that finds the object
// unused.
func (d *Derived[V]) Get(ctx context.Context, namespace, name string) (V, error) {
	return d.derivation.get(ctx, namespace, name)
}

// TryGet is Get without waiting for the object: see [WatchStore.TryGet].
func (d *Derived[V]) TryGet(namespace, name string) (V, error) {
	return d.derivation.tryGet(namespace, name)
}

func (d *derivation[E, T, V]) get(ctx context.Context, namespace, name string) (V, error) {
	object, err := d.reader.Get(ctx, namespace, name)
	return d.of(types.NamespacedName{Namespace: namespace, Name: name}, object, err)
}

func (d *derivation[E, T, V]) tryGet(namespace, name string) (V, error) {
	object, err := d.reader.TryGet(namespace, name)
	return d.of(types.NamespacedName{Namespace: namespace, Name: name}, object, err)
}

// of returns the value of an object that a reader has returned.
func (d *derivation[E, T, V]) of(key types.NamespacedName, object T, err error) (V, error) {
	if err != nil {
		d.cells.Delete(key)
		var none V
		return none, err
	}
	cell := d.cell(key, object)
	cell.once.Do(func() { cell.value, cell.err = d.call(key, object) })
	return cell.value, cell.err
}

// cell returns the cell of a version. It replaces that of another version.
func (d *derivation[E, T, V]) cell(key types.NamespacedName, object T) *derivedCell[E, V] {
	for {
		held, found := d.cells.Load(key)
		if found && held.(*derivedCell[E, V]).object.Value() == (*E)(object) {
			return held.(*derivedCell[E, V])
		}
		cell := &derivedCell[E, V]{object: weak.Make((*E)(object))}
		if found && d.cells.CompareAndSwap(key, held, cell) || !found && d.add(key, cell) {
			// The runtime keeps the argument as long as the object.
			runtime.AddCleanup((*E)(object), d.drop, cellOf[E, V]{key, weak.Make(cell)})
			return cell
		}
	}
}

// cellOf is a cell of a key, for the cleanup of its object.
type cellOf[E, V any] struct {
	key  types.NamespacedName
	cell weak.Pointer[derivedCell[E, V]]
}

// drop drops the cell of an object that has left memory.
func (d *derivation[E, T, V]) drop(of cellOf[E, V]) {
	if cell := of.cell.Value(); cell != nil {
		d.cells.CompareAndDelete(of.key, cell)
	}
}

func (d *derivation[E, T, V]) add(key types.NamespacedName, cell *derivedCell[E, V]) bool {
	_, loaded := d.cells.LoadOrStore(key, cell)
	return !loaded
}

// call calls derive. The value of a panic may hold object data, and is dropped.
func (d *derivation[E, T, V]) call(key types.NamespacedName, object T) (value V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("derive from %q: panic (%T)", key, p)
		}
	}()
	if value, err = d.derive(object); err != nil {
		err = fmt.Errorf("derive from %q: %w", key, err)
	}
	return value, err
}
