// SPDX-License-Identifier: Apache-2.0

package states

import (
	"fmt"

	"github.com/refwatch/refwatch/cache"
)

// State is the last known state of one object. In the zero State nothing is known
// yet.
type State[T cache.Object] struct {
	// Object is the object, shared and read-only; nil unless Exists.
	Object T
	// Exists is set if the object exists on the server. If neither Exists nor Synced
	// is set, that is not known.
	Exists bool
	// Synced is set once a complete read (a list, or the initial events of a
	// WatchList, or a GET) has reached the holder.
	Synced bool
	// ResourceVersion is the version of this state: the object's own if it exists,
	// otherwise that of the read or the deletion that showed its absence. Empty if a GET
	// has shown it.
	ResourceVersion string
	// Epoch is the number of the epoch in which the holder stored this state. A new
	// epoch begins when the server was rolled back. Versions of different epochs
	// cannot be compared: the same version may have other content.
	Epoch uint64
}

// String describes the state by its version, without object data.
func (s State[T]) String() string {
	what := "unknown"
	switch {
	case s.Exists:
		what = "exists"
	case s.Synced:
		what = "absent"
	}
	return fmt.Sprintf("%s, resource version %q, epoch %d", what, s.ResourceVersion, s.Epoch)
}

// MarshalText is [State.String]: an encoder writes no object data. To encode the object,
// encode State.Object.
func (s State[T]) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
