// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/cache"
)

// A slot takes a first object from a read beside those of its writer, which may be older or
// newer. No state goes back, and what is newer replaces it.
func TestFirst(t *testing.T) {
	type slot = cache.Slot[*corev1.Secret]
	read := func(version string, secrets ...any) func(*slot) { // a complete read
		return func(s *slot) { _ = s.Replace(secrets, version) }
	}
	first := func(version string) func(*slot) { return func(s *slot) { s.First(secret(version)) } }
	for name, test := range map[string]struct {
		steps []func(*slot)
		want  string // version of the object; empty: absent
		epoch uint64
	}{
		"alone":                                {[]func(*slot){first("5")}, "5", 0},
		"then an older read":                   {[]func(*slot){first("5"), read("4", secret("3"))}, "5", 0},
		"then an older absence":                {[]func(*slot){first("5"), read("4")}, "5", 0},
		"then the same object":                 {[]func(*slot){first("5"), read("7", secret("5"))}, "5", 0},
		"then a newer read":                    {[]func(*slot){first("5"), read("7", secret("6"))}, "6", 0},
		"then a newer absence":                 {[]func(*slot){first("5"), read("7")}, "", 0},
		"then an older event":                  {[]func(*slot){first("5"), func(s *slot) { _ = s.Update(secret("4")) }}, "5", 0},
		"then a newer event":                   {[]func(*slot){first("5"), func(s *slot) { _ = s.Update(secret("6")) }}, "6", 0},
		"after a read":                         {[]func(*slot){read("4", secret("3")), first("5")}, "3", 0},
		"after an absence":                     {[]func(*slot){read("4"), first("3")}, "", 0},
		"after a bookmark":                     {[]func(*slot){func(s *slot) { _ = s.Bookmark("7") }, first("5"), read("8", secret("6"))}, "6", 0},
		"after a rollback that was not synced": {[]func(*slot){(*slot).NewEpoch, first("5")}, "5", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := cache.NewSlot[*corev1.Secret](key, cache.SlotOptions{})
			for _, step := range test.steps {
				step(s)
			}
			got := s.Load()
			if !got.Synced || got.Exists != (test.want != "") || got.Exists && got.ResourceVersion != test.want || got.Epoch != test.epoch {
				t.Errorf("got %v, want version %q in epoch %d", got, test.want, test.epoch)
			}
		})
	}
}

// First refuses what Check refuses, and a slot that was replaced.
func TestFirstRefuses(t *testing.T) {
	s := cache.NewSlot[*corev1.Secret](key, cache.SlotOptions{})
	foreign := secret("5")
	foreign.Name = "another"
	if s.First(foreign) || s.First(nil) || s.First(secret("")) || s.Load().Synced {
		t.Errorf("got %v, want foreign and malformed objects refused", s.Load())
	}
	seen := cache.NewSlot[*corev1.Secret](key, cache.SlotOptions{})
	_ = seen.Bookmark("7")
	if seen.First(secret("5")) || seen.Load().Synced {
		t.Errorf("after a bookmark: got %v, want an older object refused", seen.Load())
	}
	next := s.Next()
	if s.First(secret("5")) || !next.First(secret("5")) {
		t.Error("got the object in the slot that was replaced, want it in the next one")
	}
	_ = next.Replace(nil, "4") // it was under way
	if got := next.Load(); !got.Exists || got.Epoch != 0 {
		t.Errorf("got %v, want no rollback by a read that was under way", got)
	}
}
