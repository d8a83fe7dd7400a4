// SPDX-License-Identifier: Apache-2.0

package objectcache

import "fmt"

// String describes the change by its key and its version or error, without object data.
func (c Change[T]) String() string {
	var none T
	switch {
	case c.Deleted:
		return fmt.Sprintf("%s was deleted", c.Key)
	case c.Err != nil:
		return fmt.Sprintf("%s: %v", c.Key, c.Err)
	case any(c.Object) == any(none):
		return fmt.Sprintf("%s: no object", c.Key) // not from Changes
	}
	return fmt.Sprintf("%s has resource version %q", c.Key, c.Object.GetResourceVersion())
}

// MarshalText is [Change.String]: an encoder and a logger write no object data. To encode
// the object, encode Change.Object.
func (c Change[T]) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
