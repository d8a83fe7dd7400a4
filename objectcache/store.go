// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// Store is a cache of referenced objects, whatever its strategy.
type Store[T cache.Object] interface {
	// AddReference counts a reference of an owner to an object. It never waits
	// for the network.
	AddReference(namespace, name string, referencedFrom types.UID)
	// DeleteReference takes back one AddReference with the same arguments. One
	// that was never added is not taken back: nothing happens.
	DeleteReference(namespace, name string, referencedFrom types.UID)
	// Get returns a referenced object, shared and read-only.
	Get(ctx context.Context, namespace, name string) (T, error)
}
