// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector"
)

// Who asks for a fresh read of a stream that has lived long need not wait.
func TestRefreshOfALongStreamMakesNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))}, reflector.Options{})
		for i := range 10 {
			after(time.Minute)
			r.Refresh()
			synctest.Wait()
			if got := len(r.source.seen()); got != i+2 {
				t.Fatalf("requests at the moment of refresh %d: got %d, want %d", i+1, got, i+2)
			}
			if got := r.source.seen()[i+1].options.ResourceVersion; got != "" {
				t.Errorf("version asked for: got %q, want a consistent read", got)
			}
		}
		if got := r.Status(); got.Failures != 0 || got.LastError != nil {
			t.Errorf("status: got %+v, want no failure", got)
		}
	})
}

// Who asks without end does not make the reflector ask the server without end.
func TestManyRefreshesAreNotManyRequests(t *testing.T) {
	tests := map[string]time.Duration{"at each sync": 0, "often": 10 * time.Millisecond, "now and then": 90 * time.Millisecond}
	for name, every := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *rig
				refresh := make(chan struct{}, 1)
				r = start(t, &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))}, reflector.Options{OnChange: func() {
					select {
					case refresh <- struct{}{}:
					default:
					}
				}})
				for range 500 {
					<-refresh // a sync
					after(every)
					r.Refresh()
					synctest.Wait()
				}
				for _, gap := range gaps(r.source.seen()) {
					if gap < 100*time.Millisecond {
						t.Fatalf("gap between reads: got %v, want at least 100 ms", gap)
					}
				}
			})
		})
	}
}

// A refresh during a pause is a read soon, and a consistent one.
func TestRefreshDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := fails(forbidden())
		r := start(t, &fakeSource{onWatch: streams(
			breaks(errors.New("reset"), state(secret("5"), "7")...),
			failing, failing, failing, failing, failing, failing, failing,
			opens(state(secret("5"), "9")...),
		)}, reflector.Options{})
		for r.Status().Failures < 7 {
			after(100 * time.Millisecond)
		}
		r.Refresh()
		after(1600 * time.Millisecond)
		all := r.source.seen()
		if last := all[len(all)-1]; last.options.ResourceVersion != "" {
			t.Errorf("last request: got %+v, want a consistent read by now", last)
		}
	})
}
