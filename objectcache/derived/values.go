// SPDX-License-Identifier: Apache-2.0

package derived

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/objectcache"
)

// Values are what a program derives from objects, such as the certificates that Secrets
// hold. A value is computed once for each version of an object that the reader holds in
// memory; after that a Get neither computes nor allocates. An [objectcache.DirectStore]
// holds nothing, so with one each Get computes. Make Values with [New].
type Values[V any] struct {
	derivation interface {
		get(ctx context.Context, namespace, name string) (V, error)
		tryGet(namespace, name string) (V, error)
		failure(key types.NamespacedName) error
		keepingLast() *Values[V]
	}
}

// derivation is Values of objects of a type.
type derivation[E any, T pointer[E], V any] struct {
	reader Reader[T]
	derive func(T) (V, error)
	keep   bool     // see Values.KeepLast
	cells  sync.Map // types.NamespacedName to *valueCell[E, V]
}

// pointer is an object type that is a pointer, as all are.
type pointer[E any] interface {
	*E
	cache.Object
}

// Reader reads objects: a store, or a manager.
type Reader[T any] interface {
	Get(ctx context.Context, namespace, name string) (T, error)
	TryGet(namespace, name string) (T, error)
}

// New returns what derive computes from the objects of a reader.
//
//	certificates := derived.New(secrets, func(s *corev1.Secret) (*tls.Certificate, error) {
//		certificate, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
//		if err != nil {
//			return nil, errors.New("tls.crt is no certificate in PEM, or tls.key is not its key")
//		}
//		return &certificate, nil
//	})
//
// An error of derive is shown as it is. So it should not wrap one that may quote the data, as
// those of crypto/tls and crypto/x509 may.
//
// derive is called by the first Get of each version. Gets that come meanwhile wait for
// it. With [Values.KeepLast], a version for which it returns an error does not replace the
// value of the one before. It must not change the object. The value must not refer to the
// object itself, or the object stays in memory when its references have gone; parts of it
// may be used.
func New[E any, T pointer[E], V any](reader Reader[T], derive func(T) (V, error)) *Values[V] {
	return &Values[V]{&derivation[E, T, V]{reader: reader, derive: derive}}
}

// Get returns the value of an object, shared by all callers. It waits as the Get of the
// reader does, and returns its errors. An error or a panic of derive is returned by
// every Get of that version, unless [Values.KeepLast] has a value.
//
// A value leaves memory when its object does: with the next Get after the last
// reference, and in any case after the garbage collection that finds the object
// unused.
func (v *Values[V]) Get(ctx context.Context, namespace, name string) (V, error) {
	return v.derivation.get(ctx, namespace, name)
}

// KeepLast returns Values like v, for values that must not fail with one bad version, such
// as the certificates of an ingress controller. If derive returns an error for a version,
// Get returns the value of the last version of the object that had one, and no error.
// When the object changes, call TryGet, then [Values.Err], and log or count the error:
// nothing else shows that the value is not the newest.
//
// A value belongs to one object: Get returns NotFound if the object is absent, and the error
// of derive if another object, with another UID, has taken its name. It leaves memory after
// the last reference, as without KeepLast. With a reader that lacks the method Status of an
// [objectcache.Store], a value is kept until a Get finds that the object is gone. With a
// DirectStore none is kept. A value lives in memory only: after a restart of the program, a
// bad version is an error until the next good one.
func (v *Values[V]) KeepLast() *Values[V] { return v.derivation.keepingLast() }

// Err returns the error of derive for the version that the last Get or TryGet has seen. It is
// nil if derive has succeeded, and if neither was called yet. Err itself looks at no newer
// version.
func (v *Values[V]) Err(namespace, name string) error {
	return v.derivation.failure(types.NamespacedName{Namespace: namespace, Name: name})
}

// TryGet is Get without waiting for the object: see [objectcache.WatchStore.TryGet].
func (v *Values[V]) TryGet(namespace, name string) (V, error) {
	return v.derivation.tryGet(namespace, name)
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
		if apierrors.IsNotFound(err) || errors.Is(err, objectcache.ErrNotRegistered) || errors.Is(err, objectcache.ErrStopped) {
			d.cells.Delete(key)
		}
		var none V
		return none, err
	}
	cell := d.cell(key, object)
	cell.once.Do(func() { d.compute(cell, key, object) })
	if cell.err != nil && d.keep {
		cell = cmp.Or(cell.last(), cell)
	}
	return cell.value, cell.err
}

// compute sets the value of a cell, or its error.
func (d *derivation[E, T, V]) compute(cell *valueCell[E, V], key types.NamespacedName, object T) {
	cell.err = fmt.Errorf("derive from %q: the function has ended its goroutine", key) // unless call returns
	defer cell.done.Store(true)
	cell.value, cell.err = d.call(key, object)
	cell.done.Store(true)
	if cell.err == nil {
		cell.previous.Store(nil)
	}
}

// cell returns the cell of a version. It replaces that of another version.
func (d *derivation[E, T, V]) cell(key types.NamespacedName, object T) *valueCell[E, V] {
	for {
		before, found := d.cells.Load(key)
		held, _ := before.(*valueCell[E, V])
		if found && held.object.Value() == (*E)(object) {
			return held
		}
		cell := &valueCell[E, V]{object: weak.Make((*E)(object)), uid: object.GetUID()}
		if found && d.keep && held.uid == cell.uid && d.isReferenced(key) {
			cell.previous.Store(held.newest())
		}
		if found && d.cells.CompareAndSwap(key, before, cell) || !found && d.add(key, cell) {
			// The runtime keeps the argument as long as the object.
			runtime.AddCleanup((*E)(object), cellOf[E, T, V].drop, cellOf[E, T, V]{weak.Make(d), key, weak.Make(cell)})
			return cell
		}
	}
}

func (d *derivation[E, T, V]) add(key types.NamespacedName, cell *valueCell[E, V]) bool {
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
		err = fmt.Errorf("derive from %q: %w", key, redact.Bound(err)) // it is kept for each object
	}
	return value, err
}
