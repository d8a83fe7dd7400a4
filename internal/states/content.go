// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/refwatch/refwatch/cache"
)

// contents compares objects as equality.Semantic does, which allocates twice for each byte
// of a slice.
var contents = func() conversion.Equalities {
	e := conversion.EqualitiesOrDie(bytes.Equal, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	maps.Copy(e.Equalities, equality.Semantic.Equalities)
	return e
}()

// SameContent reports whether two objects of one name and UID have the same version and
// the same content. The version alone does not prove that: after an etcd restore the
// server gives it to another state. An empty slice or map is as none. Nothing is compared
// if both are the same pointer; else SameContent takes time that grows with the object, so
// do not hold a lock meanwhile.
func SameContent[T cache.Object](a, b T) bool {
	if any(a) == any(b) {
		return true
	}
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && contents.DeepEqual(a, b)
}

// SameContent reports whether two states hold the same version of the object with the same
// content, or both hold none: see the function of that name.
func (s State[T]) SameContent(other State[T]) bool {
	if !s.Exists || !other.Exists {
		return s.Exists == other.Exists
	}
	return SameContent(s.Object, other.Object)
}
