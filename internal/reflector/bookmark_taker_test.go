// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/storetest"
)

// bookmarkTaker is a slot that takes bookmarks.
type bookmarkTaker struct {
	*storetest.Slot[*corev1.Secret]

	refuses bool
	taken   []string
}

func (s *bookmarkTaker) TakeBookmark(version string) bool {
	s.taken = append(s.taken, version)
	return !s.refuses
}

// A store takes the bookmark of a parked stream on the goroutine on which it arrives. Status has it then, and OnChange
// is not called.
func TestStoreTakesBookmarks(t *testing.T) {
	type test struct {
		store   reflector.Store
		options reflector.Options
		end     func(*rig, *connected)
		taken   bool
	}
	taker := func(refuses bool) *bookmarkTaker { return &bookmarkTaker{Slot: newSecretSlot(), refuses: refuses} }
	tests := map[string]test{
		"taken":            {store: taker(false), taken: true},
		"refused":          {store: taker(true)},
		"another store":    {store: newSecretSlot()},
		"an expected type": {store: taker(false), options: reflector.Options{ExpectedType: &corev1.Secret{}}},
		"a resync":         {store: taker(false), options: reflector.Options{ResyncPeriod: time.Hour}},
		"stopped":          {store: taker(false), end: func(r *rig, _ *connected) { r.Stop() }},
		"broken":           {store: taker(false), end: func(_ *rig, s *connected) { s.send(io.EOF) }},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		stream, changes := newConnected(), 0
		test.options.OnChange = func() { changes++ }
		r := &rig{Reflector: reflector.New(watching(stream.answer), test.store, test.options)}
		r.Start(t.Context(), func() {})
		after(time.Minute)
		if test.end != nil {
			test.end(r, stream)
			synctest.Wait()
		}
		before := changes
		taken := stream.wake.TakeBookmark("9")
		if taken != test.taken || changes != before {
			t.Errorf("got %v, and %d changes; want %v, and none", taken, changes-before, test.taken)
		}
		status := r.Status()
		switch has := status.ResourceVersion == "9" && time.Since(status.LastContact) == 0; {
		case test.taken && (!has || r.ResourceVersion() != "9"):
			t.Errorf("Status: got version %s, and %v since the last contact; want that of the bookmark", status.ResourceVersion, time.Since(status.LastContact))
		case test.end != nil && has:
			t.Error("Status has a bookmark that came after the end of the stream")
		}
		r.Stop()
		synctest.Wait()
	})
}

// panickingTaker is a slot that panics when it gets a bookmark.
type panickingTaker struct {
	*storetest.Slot[*corev1.Secret]
}

func (panickingTaker) TakeBookmark(string) bool { panic("canary") }

// A store that panics ends its stream, and no other.
func TestStoreThatPanicsWithABookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := newConnected()
		source := watching(stream.answer, opens(state(secret("7"), "7")...))
		r := startParked(t, source, panickingTaker{newSecretSlot()}, nil)
		after(time.Minute)
		stream.wake.TakeBookmark("9")
		after(time.Minute)
		if got := r.Status(); !got.Streaming || got.Failures != 0 || got.LastError == nil || strings.Contains(got.LastError.Error(), "canary") {
			t.Errorf("got streaming %v and %v, want another stream, and an error without the value", got.Streaming, got.LastError)
		}
		if got := len(source.asked()); got != 2 {
			t.Errorf("got %d streams, want 2", got)
		}
	})
}
