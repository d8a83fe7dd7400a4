// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
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
	// HasSynced returns Status.Synced of an object, false if no owner references it.
	HasSynced(namespace, name string) bool
	// Statuses yields the status of every referenced object, in no order.
	Statuses() iter.Seq[Status]
	// Stats returns what the store holds and has done so far.
	Stats() Stats
	// Permissions returns what the store needs for each object, or can use.
	Permissions() Permissions
}

// Permissions are what a store needs for each of its objects, or can use. Package access makes
// Roles of them.
type Permissions struct {
	// Resource is that of the objects.
	Resource schema.GroupVersionResource
	// ClusterScoped is set if the objects have no namespace.
	ClusterScoped bool
	// Verbs are those of the requests: get, list and watch, or some of them.
	Verbs []string
}

// Permissions returns what the store uses for each object, by its name. It needs list and watch.
// With get, a GET answers a first Get sooner, and GETs read the objects where lists and watches
// fail; the store does without if that is refused. A resource of FromSource, and one with a
// selector, has no GETs.
func (s *WatchStore[T]) Permissions() Permissions {
	if s.readsByGet() == reflector.NoGets {
		return s.resource.permissions("list", "watch")
	}
	return s.resource.permissions("get", "list", "watch")
}

// Permissions returns what the store needs for each object: get.
func (s *DirectStore[T]) Permissions() Permissions { return s.resource.permissions("get") }

// References counts the references of owners to objects.
type References interface {
	// AddReference counts a reference of an owner to an object. It never waits
	// for the network.
	AddReference(namespace, name string, referencedFrom types.UID)
	// DeleteReference takes back one AddReference with the same arguments. Without a
	// reference it does nothing.
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

// WaitForSync waits until each of the objects is known to exist or to be absent. It
// calls GetWithOptions, without demands, for all of them at the same time, so no object
// waits for another. Stats does not count these Gets.
//
// It returns nil if that is known of all objects. Otherwise it returns an error once
// every Get has returned: Get gives up on an object that the server refuses, and the end
// of ctx ends the wait for the others, also in an outage. The text names the
// first few objects that did not sync, each with the reason, and says how many more
// there are. errors.Is finds the errors of all: those of [WatchStore.Get], but
// apierrors.IsNotFound never holds. errors.As finds the first one that matches. For a
// nil ctx the error is [ErrNilContext].
func WaitForSync[T cache.Object](ctx context.Context, reader Reader[T], keys ...types.NamespacedName) error {
	if ctx == nil {
		return ErrNilContext
	}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, compareKeys)
	keys = slices.Compact(keys)
	errs := make([]error, len(keys))
	var waits sync.WaitGroup
	for i, key := range keys {
		waits.Go(func() {
			if _, err := reader.GetWithOptions(ctx, key.Namespace, key.Name, GetOptions{uncounted: true}); !apierrors.IsNotFound(err) {
				errs[i] = err
			}
		})
	}
	waits.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return &syncError{objects: len(keys), errs: errs}
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// namedErrors is how many of its errors the text of a syncError has.
const namedErrors = 5

// syncError has the errors of the objects that did not sync, at least one.
type syncError struct {
	objects int // all that were waited for
	errs    []error
}

func (e *syncError) Error() string {
	var texts []string
	for _, err := range e.errs[:min(namedErrors, len(e.errs))] {
		texts = append(texts, err.Error())
	}
	if more := len(e.errs) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d of %d objects did not sync: %s", len(e.errs), e.objects, strings.Join(texts, "; "))
}

func (e *syncError) Unwrap() []error { return e.errs }
