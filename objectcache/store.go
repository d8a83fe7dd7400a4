// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// Store reads referenced objects. [NewStore] makes one. [WatchStore], [TTLStore] and
// [DirectStore] implement it.
type Store[T cache.Object] interface {
	References
	Reader[T]

	// Run runs the store until ctx ends. It returns when every goroutine of the
	// store has ended.
	Run(ctx context.Context) error
	// Changes yields the first state of each object, and its changes, with the UIDs
	// that reference it, until ctx ends. A store that observes no changes blocks until
	// then.
	Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID]
	// Status returns the status of an object, and false if no owner references it.
	Status(namespace, name string) (Status, bool)
	// Statuses yields the status of every referenced object, in no order.
	Statuses() iter.Seq[Status]
	// Stats returns what the store holds and has done so far.
	Stats() Stats
	// Permissions returns what the store needs for each object.
	Permissions() Permissions
}

// Permissions are what a store needs for each of its objects. Package access makes Roles
// of them.
type Permissions struct {
	// Resource is that of the objects.
	Resource schema.GroupVersionResource
	// ClusterScoped is set if the objects have no namespace.
	ClusterScoped bool
	// Verbs are those of the requests: list and watch, or get.
	Verbs []string
}

// Permissions returns what the store needs for each object: list and watch, by its name.
// The store also tries get beside a slow first read, and does without it if that is refused:
// see [WatchStore.Get]. With [WatchOptions].Shared it also uses list and watch of whole namespaces.
func (s *WatchStore[T]) Permissions() Permissions { return s.resource.permissions("list", "watch") }

// Permissions returns what the store needs for each object: get.
func (s *DirectStore[T]) Permissions() Permissions { return s.resource.permissions("get") }

// References counts the references of owners to objects.
type References interface {
	// AddReference counts a reference of an owner to an object. It never waits
	// for the network.
	AddReference(namespace, name string, referencedFrom types.UID)
	// AddReadOnceReference counts a reference of an owner that needs the object as it
	// is now, and not its changes: Get returns a state that was read after the call,
	// or, if another owner watches the object, the last known one
	// (kubernetes#118566). It never waits for the network.
	AddReadOnceReference(namespace, name string, referencedFrom types.UID)
	// DeleteReference takes back one AddReference or AddReadOnceReference with the
	// same arguments. If the owner has references of both kinds, it takes back one
	// of the kind that was not added last. Without a reference it does nothing.
	DeleteReference(namespace, name string, referencedFrom types.UID)
}

// Reader reads referenced objects. The objects are shared and read-only.
type Reader[T cache.Object] interface {
	// Get returns a referenced object. It may wait until ctx ends.
	Get(ctx context.Context, namespace, name string) (T, error)
	// GetWithOptions is Get with demands on the state that it returns.
	GetWithOptions(ctx context.Context, namespace, name string, options GetOptions) (T, error)
	// TryGet is Get without waiting. It returns [ErrNotSynced] if memory does not hold
	// the object.
	TryGet(namespace, name string) (T, error)
}

// StoreOptions selects the strategy of a store, and configures it. Other packages cannot
// implement it.
//
//   - [WatchOptions]: a [WatchStore] keeps a list-and-watch of each object.
//   - [TTLOptions]: a [TTLStore] reads an object when a Get needs it, and serves it from
//     memory for a minute, or for another TTL.
//   - [DirectOptions]: a [DirectStore] reads the object for each Get.
type StoreOptions interface{ isStoreOptions() }

func (WatchOptions) isStoreOptions()  {}
func (TTLOptions) isStoreOptions()    {}
func (DirectOptions) isStoreOptions() {}

// NewStore returns a store with the strategy that the type of options selects.
// Without options (nil) the store watches, with the defaults of [WatchOptions]. The
// errors are those of [NewWatchStore], [NewTTLStore] and [NewDirectStore].
func NewStore[T cache.Object](resource resource.Resource[T], options StoreOptions) (Store[T], error) {
	switch options := options.(type) {
	case nil:
		return asStore(NewWatchStore(resource, WatchOptions{}))
	case WatchOptions:
		return asStore(NewWatchStore(resource, options))
	case TTLOptions:
		return asStore(NewTTLStore(resource, options))
	case DirectOptions:
		return asStore(NewDirectStore(resource, options))
	}
	return nil, fmt.Errorf("new store: the options are a %T: pass WatchOptions, TTLOptions or DirectOptions, not a pointer to them", options)
}

// asStore returns an untyped nil if there is an error.
func asStore[T cache.Object](store Store[T], err error) (Store[T], error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}
