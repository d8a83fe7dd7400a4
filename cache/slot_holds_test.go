// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/cache"
)

// slotWith returns a function that makes a slot and replaces its state by a complete read at version 9.
func slotWith(items ...any) func(*testing.T) *cache.Slot[*corev1.Secret] {
	return func(t *testing.T) *cache.Slot[*corev1.Secret] {
		slot := newSlot()
		if err := slot.Replace(items, "9"); err != nil {
			t.Fatal(err)
		}
		return slot
	}
}

func metadataOf(object *corev1.Secret) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: object.ObjectMeta}
}

func TestSlotHolds(t *testing.T) {
	other := secret("5")
	other.Name = "other"
	unsynced := func(t *testing.T) *cache.Slot[*corev1.Secret] {
		slot := newSlot()
		_ = slot.Add(secret("5"))
		return slot
	}
	deleted := func(t *testing.T) *cache.Slot[*corev1.Secret] {
		slot := slotWith(secret("5"))(t)
		_ = slot.Delete(secret("10"))
		return slot
	}
	tests := map[string]struct {
		slot func(*testing.T) *cache.Slot[*corev1.Secret]
		read []any
		want bool
	}{
		"the same":                   {slotWith(secret("5")), []any{secret("5")}, true},
		"both absent":                {slotWith(), nil, true},
		"deleted":                    {deleted, []any{}, true},
		"another version":            {slotWith(secret("5")), []any{secret("6")}, false},
		"an older version":           {slotWith(secret("5")), []any{secret("4")}, false},
		"another UID":                {slotWith(secret("5")), []any{secret("5", "two")}, false},
		"absent now":                 {slotWith(secret("5")), nil, false},
		"created":                    {slotWith(), []any{secret("5")}, false},
		"created again":              {deleted, []any{secret("5")}, false},
		"another object":             {slotWith(secret("5")), []any{other}, false},
		"another type":               {slotWith(secret("5")), []any{&corev1.ConfigMap{ObjectMeta: secret("5").ObjectMeta}}, false},
		"its metadata":               {slotWith(secret("5")), []any{metadataOf(secret("5"))}, true},
		"metadata, another version":  {slotWith(secret("5")), []any{metadataOf(secret("6"))}, false},
		"metadata, another UID":      {slotWith(secret("5")), []any{metadataOf(secret("5", "two"))}, false},
		"metadata of another object": {slotWith(secret("5")), []any{metadataOf(other)}, false},
		"no object":                  {slotWith(secret("5")), []any{nil}, false},
		"two objects":                {slotWith(secret("5")), []any{secret("5"), secret("5")}, false},
		"two objects, absent before": {slotWith(), []any{secret("5"), secret("6")}, false},
		"not synced":                 {func(*testing.T) *cache.Slot[*corev1.Secret] { return newSlot() }, nil, false},
		"not synced, one event":      {unsynced, []any{secret("5")}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			slot := test.slot(t)
			before := slot.Load()
			if got := slot.Holds(test.read); got != test.want {
				t.Errorf("Holds: got %v, want %v", got, test.want)
			}
			if after := slot.Load(); after != before {
				t.Errorf("after Holds: got %+v, want the same state", after)
			}
		})
	}
}
