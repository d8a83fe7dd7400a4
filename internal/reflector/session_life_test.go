// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"testing"
)

// A request of a session that has ended ends at once: Stop may come when the request is about to begin, and Run waits
// for it.
func TestContextOfAnEndedSession(t *testing.T) {
	for name, parked := range map[string]bool{"parked": true, "not parked": false} {
		t.Run(name, func(t *testing.T) {
			l := &life{parked: parked}
			l.end(errEnded)
			ctx := l.context(t.Context(), nil, nil, nil)
			if got := context.Cause(ctx); !errors.Is(got, errEnded) {
				t.Errorf("cause of the end of the context: got %v, want %v", got, errEnded)
			}
		})
	}
}

// A session takes nothing between its end and the worker that handles it.
func TestWhileParked(t *testing.T) {
	var l life
	calls := 0
	count := func() { calls++ }
	if l.whileParked(count); calls != 0 {
		t.Error("a session that is not parked takes a bookmark")
	}
	l.park()
	if l.whileParked(count); calls != 1 {
		t.Errorf("a parked session: got %d calls, want 1", calls)
	}
	l.end(errEnded)
	if l.whileParked(count); calls != 1 {
		t.Error("a session that has ended takes a bookmark")
	}
}
