// SPDX-License-Identifier: Apache-2.0

package cache

import "fmt"

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
