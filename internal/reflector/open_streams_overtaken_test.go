// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// A list overtakes the event that is under way, if the stream is silent otherwise. Another stream then reads the object
// in full, and the late event is not missed.
func TestListOvertakesTheEvent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream, next := newStream(), newStream()
		source := &fakeSource{
			onList:  lists(brings("100", secret("90")), brings("105", secret("104"))),
			onWatch: streams(stream.answer, next.answer),
		}
		r := start(t, listing(source), reflector.Options{})
		after(150 * time.Second)
		if got, want := source.asked(), []string{"list ", "watch 100", "list ", "list ", "watch 105"}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want %q", got, want)
		}
		next.events <- event(watch.Modified, secret("110"))
		after(time.Second)
		if got := r.Status(); failure.Of(got.LastError) != failure.Silent || got.Failures != 0 || r.slot.Load().ResourceVersion != "110" {
			t.Errorf("got %+v and status %+v, want version 110 after a Silent failure", r.slot.Load(), got)
		}
	})
}

// A change that was lost is noticed also if a bookmark comes late: the next list shows it.
func TestLostChangeAfterABookmark(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream := newStream()
		source := &fakeSource{
			onList:  lists(brings("100", secret("90")), brings("105", secret("104"))),
			onWatch: streams(stream.answer, opens()),
		}
		r := start(t, listing(source), reflector.Options{})
		after(119 * time.Second)
		stream.events <- bookmark("101", false)
		after(150 * time.Second)
		if got := r.Status(); failure.Of(got.LastError) != failure.Silent || r.slot.Load().ResourceVersion != "104" {
			t.Errorf("got %+v and status %+v, want version 104 after a Silent failure", r.slot.Load(), got)
		}
	})
}
