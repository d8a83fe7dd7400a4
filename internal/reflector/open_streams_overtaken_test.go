// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// A list overtakes the event that is under way. The stream that then delivers it, or
// anything else, is kept, and is verified again after two more minutes of silence.
func TestListOvertakesTheEvent(t *testing.T) {
	modified := event(watch.Modified, secret("104"))
	type test struct {
		late   time.Duration // the event, after the list
		brings watch.Event
		want   string // version of the object after it
	}
	tests := map[string]test{
		"at once":                      {0, modified, "104"},
		"after a minute":               {time.Minute, modified, "104"},
		"at the last moment":           {89 * time.Second, modified, "104"},
		"a later change":               {time.Minute, event(watch.Modified, secret("110")), "110"},
		"a bookmark before the change": {time.Minute, bookmark("101", false), "90"},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			stream := newStream()
			source := &fakeSource{
				onList:  lists(brings("100", secret("90")), brings("105", secret("104")), brings("112", secret(test.want))),
				onWatch: streams(stream.answer),
			}
			r := start(t, listing(source), reflector.Options{})
			after(2*time.Minute + test.late)
			stream.events <- test.brings
			after(2*time.Minute - time.Second)
			if got, want := source.asked(), []string{"list ", "watch 100", "list "}; !slices.Equal(got, want) {
				t.Errorf("requests: got %q, want the stream kept after one verification", got)
			}
			after(31 * time.Second)
			if got := source.asked(); len(got) != 4 || got[3] != "list " {
				t.Errorf("requests: got %q, want a second verification", got)
			}
			if got := r.Status(); got.LastError != nil || r.slot.Load().ResourceVersion != test.want {
				t.Errorf("got %+v and status %+v, want version %s and no failure", r.slot.Load(), got, test.want)
			}
		})
	})
}

// A change that was lost ends a stream also if a bookmark came after the list: the next list
// shows the change again.
func TestLostChangeAfterABookmark(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream := newStream()
		source := &fakeSource{
			onList:  lists(brings("100", secret("90")), brings("105", secret("104"))),
			onWatch: streams(stream.answer, opens()),
		}
		r := start(t, listing(source), reflector.Options{})
		after(3 * time.Minute)
		stream.events <- bookmark("101", false)
		after(4*time.Minute + 30*time.Second)
		if got := r.Status(); failure.Of(got.LastError) != failure.Silent || r.slot.Load().ResourceVersion != "104" {
			t.Errorf("got %+v and status %+v, want version 104 after a Silent failure", r.slot.Load(), got)
		}
	})
}

// A stream that ends, or is stopped, while an event is awaited leaves nothing to the next one.
func TestStreamEndsWhileAnEventIsAwaited(t *testing.T) {
	type test struct {
		end     func(*rig, *fakeStream)
		watches int
	}
	tests := map[string]test{
		"regular": {func(_ *rig, s *fakeStream) { s.finish(io.EOF) }, 2},
		"Refresh": {func(r *rig, _ *fakeStream) { r.Refresh() }, 2},
		"Stop":    {func(r *rig, _ *fakeStream) { r.Stop() }, 1},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			stream := newStream()
			source := &fakeSource{
				onList:  lists(brings("100", secret("90")), brings("105", secret("104"))),
				onWatch: streams(stream.answer, opens()),
			}
			r := start(t, listing(source), reflector.Options{})
			after(3 * time.Minute)
			test.end(r, stream)
			after(30 * time.Minute)
			if got := r.Status(); got.LastError != nil || source.count("watch") != test.watches {
				t.Errorf("got %q and status %+v, want %d watches and no failure", source.asked(), got, test.watches)
			}
		})
	})
}
