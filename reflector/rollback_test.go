// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// A stream that the first rollback has kept, because it was below it, sees later versions, and then a second rollback.
// That is proved to others: a stream at a version beyond it ends at once.
func TestSecondRollbackIsProved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		kept := newStream(state(secret("40"), "50")...)
		start(t, watching(kept.answer, opens(state(secret("40"), "70")...)), reflector.Options{Gate: gate})
		first := start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("40"), "60")...)), reflector.Options{Gate: gate})
		first.Refresh()
		after(10 * time.Second)
		if got := first.Status().ResourceVersion; got != "60" {
			t.Fatalf("the first rollback: got version %s, want 60", got)
		}
		kept.events <- bookmark("80", false)
		silent := start(t, watching(opens(state(secret("75"), "80")...), opens(state(secret("40"), "70")...)), reflector.Options{Gate: gate})
		after(10 * time.Second)
		kept.finish(io.EOF) // the server is restored to 70; the stream of the other one is kept, and silent
		after(10 * time.Second)
		if got := silent.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("10 s after the second rollback was read: got version %s, want 40", got)
		}
	})
}

// A reflector that is refused during two rollbacks proves the second one: it reads a version below that of the first.
func TestRollbackBelowTheFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		var granted atomic.Bool
		stream := newStream(state(secret("90"), "100")...)
		asked := 0
		late := start(t, &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			if asked++; asked == 1 {
				return stream, nil
			} else if !granted.Load() {
				return nil, forbidden()
			}
			return opens(state(secret("40"), "45")...)()
		}, onList: func(metav1.ListOptions) (runtime.Object, error) { return nil, forbidden() }}, reflector.Options{Gate: gate})
		stream.finish(io.EOF)
		after(time.Second)
		silent := start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("60"), "65")...), opens(state(secret("40"), "45")...)), reflector.Options{Gate: gate})
		silent.Refresh()
		after(10 * time.Second)
		if got := silent.slot.Load().ResourceVersion; got != "60" {
			t.Fatalf("the first rollback: got version %s, want 60", got)
		}
		granted.Store(true) // the server is restored to 45; the stream of the other one is kept, and silent
		after(30 * time.Second)
		if got := late.slot.Load().ResourceVersion; got != "40" {
			t.Fatalf("the second rollback: got version %s, want 40", got)
		}
		if got := silent.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("after the second rollback was read: got version %s, want 40", got)
		}
	})
}
