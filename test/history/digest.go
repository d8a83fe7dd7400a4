// SPDX-License-Identifier: Apache-2.0

package history

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// key is that of all digests of the process. It is nowhere else, so that nobody can guess content from a digest.
var key = func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
}()

// Digest identifies the content of an object: two objects have the same digest if their JSON is the same, apart from
// apiVersion and kind, which not every read has, and from the metadata that the server sets in a write, such as the UID
// and the version. So it is known before the write, for [Object.BeginWrite], if the server sets no default. Each write
// needs a content of its own then. The digests of another process are different, and reveal nothing of the content.
func Digest(object metav1.Object) string {
	encoded, err := json.Marshal(object)
	if err != nil {
		return "not JSON" // no API object
	}
	encoded = content(encoded)
	hash := hmac.New(sha256.New, key)
	hash.Write(encoded)
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// content returns the fields of an object's JSON, sorted, without its type and the metadata that the server sets in a
// write. The values are not encoded anew: objects may be large.
func content(encoded []byte) []byte {
	var object, metadata map[string]json.RawMessage
	if json.Unmarshal(encoded, &object) != nil {
		return encoded // no object
	}
	_ = json.Unmarshal(object["metadata"], &metadata) // it stays nil if there is none
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		delete(metadata, name)
	}
	delete(object, "apiVersion")
	delete(object, "kind")
	object["metadata"], _ = json.Marshal(metadata) // of what was just decoded
	fields := make([]byte, 0, len(encoded))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		fields = strconv.AppendQuote(fields, name)
		fields = append(fields, object[name]...)
	}
	return fields
}

// StateOf returns the state of an object that was written or read.
func StateOf(object metav1.Object) State {
	return State{UID: object.GetUID(), Version: object.GetResourceVersion(), Digest: Digest(object), Immutable: immutable(object)}
}

// immutable returns the field Immutable of a Secret or ConfigMap, and false for other kinds.
func immutable(object metav1.Object) bool {
	switch o := object.(type) {
	case *corev1.Secret:
		return ptr.Deref(o.Immutable, false)
	case *corev1.ConfigMap:
		return ptr.Deref(o.Immutable, false)
	}
	return false
}
