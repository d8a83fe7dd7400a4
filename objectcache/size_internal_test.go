// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/internal/reflector"
)

// What each object costs is as large as its size class of the allocator allows: one more field costs each object 16 or
// 32 bytes.
func TestSizeOfAnObject(t *testing.T) {
	for name, test := range map[string]struct{ got, want uintptr }{
		"entry":       {unsafe.Sizeof(entry[*corev1.Secret]{}), 288},
		"objectWatch": {unsafe.Sizeof(objectWatch[*corev1.Secret]{}), 64},
		"view":        {unsafe.Sizeof(view[*corev1.Secret]{}), 48},
		"Reflector":   {unsafe.Sizeof(reflector.Reflector{}), 480},
	} {
		if test.got > test.want {
			t.Errorf("%s: got %d bytes, want at most %d", name, test.got, test.want)
		}
	}
}
