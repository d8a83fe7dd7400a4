// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/cache"
)

// slotWith is a slot after a complete read at version 9, and then events.
func slotWith(items ...any) func(*testing.T) *cache.Slot[*corev1.Secret] {
	return func(t *testing.T) *cache.Slot[*corev1.Secret] {
		slot := newSlot()
		if err := slot.Replace(items, "9"); err != nil {
			t.Fatal(err)
		}
		return slot
	}
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
		"absent, both":               {slotWith(), nil, true},
		"absent after all":           {deleted, []any{}, true},
		"another version":            {slotWith(secret("5")), []any{secret("6")}, false},
		"an older version":           {slotWith(secret("5")), []any{secret("4")}, false},
		"another UID":                {slotWith(secret("5")), []any{secret("5", "two")}, false},
		"gone":                       {slotWith(secret("5")), nil, false},
		"created":                    {slotWith(), []any{secret("5")}, false},
		"not gone":                   {deleted, []any{secret("5")}, false},
		"another object":             {slotWith(secret("5")), []any{other}, false},
		"another type":               {slotWith(secret("5")), []any{&corev1.ConfigMap{ObjectMeta: secret("5").ObjectMeta}}, false},
		"no object":                  {slotWith(secret("5")), []any{nil}, false},
		"two":                        {slotWith(secret("5")), []any{secret("5"), secret("5")}, false},
		"two where none is":          {slotWith(), []any{secret("5"), secret("6")}, false},
		"nothing known":              {func(*testing.T) *cache.Slot[*corev1.Secret] { return newSlot() }, nil, false},
		"nothing known of an object": {unsynced, []any{secret("5")}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			slot := test.slot(t)
			before := slot.Load()
			if got := slot.Holds(test.read); got != test.want {
				t.Errorf("Holds: got %v, want %v", got, test.want)
			}
			if after := slot.Load(); after != before || slot.Dropped() != (cache.Dropped{}) {
				t.Errorf("after Holds: got %+v and %+v, want nothing changed or counted", after, slot.Dropped())
			}
		})
	}
}
