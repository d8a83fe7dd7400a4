// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/conversion"
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
func SameContent[T Object](a, b T) bool {
	if any(a) == any(b) {
		return true
	}
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && contents.DeepEqual(a, b)
}

// identical reports whether two states hold the same version of the object with
// the same content, or both hold none.
func identical[T Object](a, b State[T]) bool {
	if a.Exists != b.Exists || !a.Exists {
		return a.Exists == b.Exists
	}
	return SameContent(a.Object, b.Object)
}

// contradicts reports whether a later read, which is not identical to the state
// held, cannot come after it in one epoch.
func contradicts[T Object](held, read State[T]) bool {
	if !held.Synced || !read.Exists {
		return false // nothing is held, or an object was deleted
	}
	order, _ := CompareVersions(read.ResourceVersion, held.ResourceVersion)
	return order <= 0
}
