// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

// newTTLTestStore returns a TTLStore that has ended, with one object that was not read.
func newTTLTestStore(t *testing.T) (*WatchStore[*corev1.Secret], *objectWatch[*corev1.Secret]) {
	t.Helper()
	store, err := NewTTLStore(resource.Secrets(clients.Nowhere()), TTLOptions{})
	if err != nil {
		t.Fatal(err)
	}
	store.AddReference(testKey.Namespace, testKey.Name, "pod")
	s := store.store
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = ctx
	e := s.entry(testKey)
	w := s.newWatchLocked(e)
	e.watch.Store(w)
	return s, w
}

// The reads of a TTLStore count the rollbacks of the server: after one, a version may stand for other content.
func TestTTLReadsCountRollbacks(t *testing.T) {
	s, w := newTTLTestStore(t)
	for i, read := range []struct {
		version, content string
		epoch            uint64
	}{
		{"7", "lost", 0}, {"7", "lost", 0}, {"5", "restored", 1}, {"7", "other", 1}, {"7", "another", 2}, {"8", "newer", 2},
	} {
		object := testSecret(read.version, false)
		object.Annotations = map[string]string{"content": read.content}
		_ = w.Replace([]any{object}, "")
		if state := s.entry(testKey).state(); state.Epoch != read.epoch || state.Object.Annotations["content"] != read.content {
			t.Errorf("read %d: got epoch %d, want %d, and the content that was read", i, state.Epoch, read.epoch)
		}
	}
}

// An object is served beyond its TTL only while a read is under way: else it would be served for ever.
func TestTTLIsNotProlongedWithoutARead(t *testing.T) {
	s, w := newTTLTestStore(t)
	_ = w.Replace([]any{testSecret("5", false)}, "")
	w.upkeep = engine.ByNone
	before := w.until.Load()
	if s.prolongLocked(w); w.until.Load() != before {
		t.Error("no read is under way: the object is served for longer")
	}
	w.upkeep = engine.ByRead
	if s.prolongLocked(w); w.until.Load() <= before {
		t.Error("a read is under way: the object is not served for longer")
	}
}

// Between a read and the moment when the store notices it, a Get may prolong the state, and keep the previous one for
// an owner without a read. That ends with the read.
func TestTTLIsNotProlongedByAReadThatIsDone(t *testing.T) {
	s, w := newTTLTestStore(t)
	_ = w.Replace([]any{testSecret("5", false)}, "")
	w.upkeep = engine.ByRead
	s.keepPreviousLocked(w, w.entry.newestOwner)
	if w.until.Load() <= w.lapses || w.entry.previousFor == 0 {
		t.Error("a read is under way: the object is not served for longer")
	}
	s.unwatchLocked(w.entry, w, engine.OnDemand)
	if w.until.Load() != w.lapses || w.entry.previousFor != 0 {
		t.Errorf("the read is done: got served until %d, and %d, want its TTL, and no owner without a read", w.until.Load(), w.entry.previousFor)
	}
}

// A subscriber looks at a new owner again when a Get has asked for a read, and starts no timer until then.
func TestTTLChangesStartNoTimer(t *testing.T) {
	s, w := newTTLTestStore(t)
	_ = w.Replace([]any{testSecret("5", false)}, "")
	w.entry.noticed = true
	for upkeep, notices := range map[engine.Upkeep]int{engine.ByNone: 0, engine.ByRead: 1} {
		w.upkeep = upkeep
		if _, ok := s.snapshot(testKey); ok {
			t.Error("got the state for an owner without a read")
		}
		if got := len(s.notices); got != notices {
			t.Errorf("upkeep %v: got %d timers, want %d", upkeep, got, notices)
		}
		s.cancelNoticeLocked(testKey)
	}
}

// A read of an absence has a TTL of its own, and one of an immutable object too.
func TestTTLOf(t *testing.T) {
	var own time.Duration
	var ok bool
	for name, test := range map[string]struct {
		options           TTLOptions
		own               time.Duration // of TTLFunc, if it is not 0; -1 is 0
		exists, immutable bool
		least, most       time.Duration
	}{
		"default":                        {TTLOptions{}, 0, true, false, time.Minute, time.Minute},
		"of the function":                {TTLOptions{}, time.Hour, true, false, time.Hour, time.Hour},
		"0 of the function":              {TTLOptions{}, -1, true, false, 0, 0},
		"absent":                         {TTLOptions{}, 0, false, false, time.Second, time.Second},
		"absent, and a shorter TTL":      {TTLOptions{TTL: time.Millisecond}, 0, false, false, time.Millisecond, time.Millisecond},
		"immutable":                      {TTLOptions{}, 0, true, true, 10 * time.Minute, 20 * time.Minute},
		"immutable, and a longer TTL":    {TTLOptions{TTL: time.Hour}, 0, true, true, time.Hour, time.Hour},
		"immutable, and hardly ever":     {TTLOptions{ImmutableRecheck: 1<<63 - 1}, 0, true, true, 1 << 62, 1<<63 - 1},
		"immutable, and never rechecked": {TTLOptions{ImmutableRecheck: -1}, 0, true, true, 1 << 62, 1<<63 - 1},
	} {
		own, ok = max(0, test.own), test.own != 0
		test.options.TTLFunc = func() (time.Duration, bool) { return own, ok }
		test.options.setDefaults()
		if got := test.options.of(test.exists, test.immutable); got < test.least || got > test.most {
			t.Errorf("%s: got %v, want %v to %v", name, got, test.least, test.most)
		}
	}
}
