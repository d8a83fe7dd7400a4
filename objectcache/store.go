// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// Store is a cache of referenced objects. [WatchStore] implements it.
type Store[T cache.Object] interface {
	// Run runs the store until ctx ends. It returns when every goroutine of the
	// store has ended.
	Run(ctx context.Context) error
	// AddReference counts a reference of an owner to an object. It never waits
	// for the network.
	AddReference(namespace, name string, referencedFrom types.UID)
	// DeleteReference takes back one AddReference with the same arguments. Without
	// such an AddReference it does nothing.
	DeleteReference(namespace, name string, referencedFrom types.UID)
	// Get returns a referenced object, shared and read-only.
	Get(ctx context.Context, namespace, name string) (T, error)
	// Changes yields the objects that changed, each with the UIDs that reference
	// it, until ctx ends. A store that observes no changes blocks until then.
	Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID]
}
