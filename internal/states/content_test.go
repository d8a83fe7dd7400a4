// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/states"
)

const mebibyte = 1 << 20

// largeSecret returns the secret with 1 MiB of data.
func largeSecret(version string) *corev1.Secret {
	object := secret(version)
	object.Data = map[string][]byte{"value": bytes.Repeat([]byte("x"), mebibyte)}
	return object
}

// A read that brings the large object that is held allocates for its fields, not for its bytes: streams are opened
// again by the thousand.
func TestLargeObjectIsReadAgain(t *testing.T) {
	held, read := largeSecret("10"), largeSecret("10")
	allocations := testing.AllocsPerRun(5, func() { _ = states.SameContent(held, read) })
	if allocations > 500 {
		t.Errorf("got %v allocations for a read of the object that is held, want at most 500", allocations)
	}
}

func TestSameContent(t *testing.T) {
	large, other := largeSecret("10"), largeSecret("10")
	other.Data["value"][mebibyte-1]++
	without, empty := secret("10"), secret("10")
	empty.Data = map[string][]byte{}
	custom := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"values": []any{value, int64(3)}}}}
	}
	tests := map[string]struct {
		a, b cache.Object
		want bool
	}{
		"one object":       {large, large, true},
		"equal bytes":      {large, largeSecret("10"), true},
		"another byte":     {large, other, false},
		"another version":  {large, largeSecret("11"), false},
		"nil and empty":    {without, empty, true},
		"custom, equal":    {custom("a"), custom("a"), true},
		"custom, other":    {custom("a"), custom("b"), false},
		"of another type":  {large, custom("a"), false},
		"nil and no bytes": {secretWith("10", ""), &corev1.Secret{ObjectMeta: large.ObjectMeta, Data: map[string][]byte{"value": nil}}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := states.SameContent(test.a, test.b); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func BenchmarkSameContentOfALargeObject(b *testing.B) {
	held, read := largeSecret("10"), largeSecret("10")
	b.ReportAllocs()
	for b.Loop() {
		_ = states.SameContent(held, read)
	}
}
