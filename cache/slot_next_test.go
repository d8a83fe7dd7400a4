// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/cache"
)

// secretWith returns the secret with a value.
func secretWith(version, value string) *corev1.Secret {
	object := secret(version)
	object.Data = map[string][]byte{"value": []byte(value)}
	return object
}

// The next slot begins with the state of the slot before. A read that contradicts it begins a new epoch. A read of the
// same state is no change.
func TestSlotNext(t *testing.T) {
	tests := map[string]struct {
		items   []any
		version string
		epoch   uint64
		changed bool
	}{
		"the same":                 {[]any{secretWith("8", "a")}, "20", 0, false},
		"the same, rolled back":    {[]any{secretWith("8", "a")}, "8", 0, false},
		"newer":                    {[]any{secretWith("12", "b")}, "20", 0, true},
		"other content":            {[]any{secretWith("8", "b")}, "20", 1, true},
		"older":                    {[]any{secretWith("7", "a")}, "20", 1, true},
		"older read":               {[]any{secretWith("7", "a")}, "9", 1, true},
		"absent":                   {nil, "20", 0, true},
		"absent, in an older read": {nil, "9", 1, true},
		"newer, in an older read":  {[]any{secretWith("9", "b")}, "9", 1, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := newSlot()
			_ = before.Replace([]any{secretWith("8", "a")}, "10")
			next := before.Next()
			if got := next.Load(); got != before.Load() {
				t.Errorf("before the read: got %+v, want the state of the slot before", got)
			}
			held, notified := next.Load(), next.Changed()
			_ = next.Replace(test.items, test.version)
			got := next.Load()
			if changed(notified) != test.changed || (got != held) != test.changed {
				t.Errorf("changed: got %+v, want a change: %v", got, test.changed)
			}
			if got.Epoch != test.epoch || got.Exists != (len(test.items) > 0) {
				t.Errorf("got %+v in epoch %d, want epoch %d", got, got.Epoch, test.epoch)
			}
			_ = next.Update(secretWith(test.version, "older"))
			if next.Load() != got {
				t.Error("an event that is not newer than the read was stored")
			}
		})
	}
}

// A slot drops all writes after Next, so that no reader sees the state go back.
func TestSlotAfterNext(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("8")}, "10")
	before := slot.Load()
	next := slot.Next()
	slot.NewEpoch()
	_ = slot.Bookmark("11")
	_ = slot.Update(secret("12"))
	_ = slot.Delete(secret("8"))
	_ = slot.Replace(nil, "13")
	if got := slot.Load(); got != before {
		t.Errorf("got %+v, want the state from before", got)
	}
	_ = next.Replace([]any{secret("9")}, "11")
	if got := next.Next().Load(); got.Epoch != 0 || got.ResourceVersion != "9" {
		t.Errorf("the next slot: got %+v, want version 9 in epoch 0", got)
	}
}

// The next slot of one that is not synced inherits only the epoch.
func TestSlotNextOfAnEmptySlot(t *testing.T) {
	empty := cache.NewSlot[*corev1.Secret](key)
	for range 3 {
		empty.NewEpoch()
	}
	_ = empty.Add(secret("5")) // an event alone
	next := empty.Next()
	if got := next.Load(); got.Synced || got.Exists {
		t.Errorf("before the read: got %+v, want the zero State", got)
	}
	_ = next.Replace([]any{secret("8")}, "9")
	if got := next.Load(); got.Epoch != 3 || got.ResourceVersion != "8" {
		t.Errorf("got %+v, want version 8 in epoch 3", got)
	}
}

// Some servers send a deletion with the last version that the object had.
func TestIssue8DeletionWithTheLastVersion(t *testing.T) {
	tests := map[string]struct {
		step func(*cache.Slot[*corev1.Secret])
		gone string // the version of the absence; empty if it still exists
	}{
		"its last version":                 {func(s *cache.Slot[*corev1.Secret]) { _ = s.Delete(secret("10")) }, "10"},
		"after a bookmark":                 {func(s *cache.Slot[*corev1.Secret]) { _ = s.Bookmark("30"); _ = s.Delete(secret("10")) }, "30"},
		"an older one":                     {func(s *cache.Slot[*corev1.Secret]) { _ = s.Delete(secret("9")) }, ""},
		"of another object":                {func(s *cache.Slot[*corev1.Secret]) { _ = s.Delete(secret("10", "two")) }, ""},
		"in between":                       {func(s *cache.Slot[*corev1.Secret]) { _ = s.Bookmark("30"); _ = s.Delete(secret("20")) }, ""},
		"and the object's last event late": {func(s *cache.Slot[*corev1.Secret]) { _ = s.Delete(secret("10")); _ = s.Update(secret("10")) }, "10"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			slot := newSlot()
			_ = slot.Replace([]any{secret("10")}, "10")
			test.step(slot)
			if got := slot.Load(); got.Exists != (test.gone == "") || !got.Exists && got.ResourceVersion != test.gone {
				t.Errorf("got %+v, want it gone at version %q", got, test.gone)
			}
		})
	}
}

// A rollback to the very same object is no change. The next change is of the new epoch.
func TestIssue8NewEpochWithTheSameObject(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secretWith("8", "a")}, "20")
	before, notified := slot.Load(), slot.Changed()
	slot.NewEpoch()
	_ = slot.Replace([]any{secretWith("8", "a")}, "9")
	if got := slot.Load(); got != before || changed(notified) {
		t.Errorf("got %+v, want no change", got)
	}
	_ = slot.Update(secretWith("10", "b"))
	if got := slot.Load(); got.Epoch != 1 || got.ResourceVersion != "10" {
		t.Errorf("got %+v, want version 10 in epoch 1", got)
	}
	_ = slot.Replace([]any{secretWith("10", "c")}, "12")
	if got := slot.Load(); got.Epoch != 2 {
		t.Errorf("other content after that: got epoch %d, want 2", got.Epoch)
	}
}
