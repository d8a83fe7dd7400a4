// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// A thousand parked streams that are silent at the same time are all verified within half
// a minute. A bounded number of goroutines does it, and a new reflector waits no longer for
// its turn.
func TestSilentStreamsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(nil))
		c.add(1000, "secrets")
		before := goruntime.NumGoroutine()
		var most atomic.Int64
		c.forget()
		c.serveAll(func(call call) answer {
			most.Store(max(most.Load(), int64(goruntime.NumGoroutine()-before)))
			return healthy(call)
		})
		after(2*time.Minute + 10*time.Millisecond) // in the middle of the verifications
		added := c.add(1, "secrets")
		after(30*time.Second - 10*time.Millisecond)
		c.wantSynced(added, soonAwaited, "a new reflector")
		verified := map[int]bool{}
		for _, r := range c.seen() {
			verified[r.id] = verified[r.id] || r.verb == "list"
		}
		if verified[1000] = true; len(verified) != 1001 || c.synced() != 1001 {
			t.Errorf("verified: got %d of 1,001 streams, and %d are open", len(verified), c.synced())
		}
		if got := most.Load(); got > 100 {
			t.Errorf("goroutines: got %d more than without verifications, want 100 at most", got)
		}
	})
}

// A source that ends the goroutine of a verification ends that one only.
func TestVerificationThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 1}, atOnce(nil))
		c.add(10, "secrets")
		c.forget()
		c.serve([]int{0, 1, 2}, func(call) answer { goruntime.Goexit(); return answer{} })
		after(150 * time.Second)
		ids := c.order()
		slices.Sort(ids)
		if !slices.Equal(ids, numbers(10)) {
			t.Errorf("lists: got those of %v, want one of each of 10", ids)
		}
	})
}

// The gate admits verifications as it admits attempts.
func TestVerificationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 3}, atOnce(nil))
		c.add(30, "secrets")
		c.forget()
		c.serveAll(taking(200*time.Millisecond, healthy))
		after(150 * time.Second)
		if got := c.mostOpening(); got != 3 {
			t.Errorf("lists at a time: got %d, want 3", got)
		}
		ids := c.order()
		slices.Sort(ids)
		if !slices.Equal(ids, numbers(30)) {
			t.Errorf("lists: got those of %v, want one of each of 30", ids)
		}
	})
}

// A thousand streams that have lost an event are replaced within three minutes of their last contact.
func TestLostEventsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(nil))
		c.add(1000, "secrets")
		c.mu.Lock()
		c.content = "900001" // no stream delivers it
		c.mu.Unlock()
		after(3 * time.Minute)
		for id, m := range c.members {
			if got := m.Status(); failure.Of(got.LastError) != failure.Silent || !m.isCurrent() {
				t.Fatalf("stream %d: got %+v, want it replaced", id, got)
			}
		}
	})
}

// Lists that hang hold up others for minutes only: of 1,000 streams that have lost an event, those that can be compared
// are replaced, though a tenth cannot.
func TestHangingListsHoldUpOtherStreamsForMinutesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, bad = 1000, 100
		c := newCrowd(t, reflector.GateOptions{}, atOnce(nil))
		ids := c.add(streams, "secrets")
		c.forget()
		c.mu.Lock()
		c.content = "900001" // an event that no stream delivers
		c.mu.Unlock()
		c.serve(ids[:bad], hanging)
		after(7 * time.Minute)
		left := 0
		for _, id := range ids[bad:] {
			m := c.members[id]
			class := failure.Of(m.Status().LastError)
			if class != failure.Silent && class != failure.Unverified || !m.isCurrent() {
				left++
			}
		}
		if left > 0 {
			t.Errorf("after seven minutes: %d streams are not replaced, want none", left)
		}
	})
}
