// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// hangingLists is a source whose lists hang until their context ends.
type hangingLists struct{ *fakeSource }

func (s hangingLists) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.record("list", options)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A silent stream whose list hangs is replaced after that list.
func TestSilentStreamWhereListsHang(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := hangingLists{&fakeSource{onWatch: streams(opens(state(secret("5"), "7")...), opens(state(secret("8"), "9")...))}}
		r := start(t, source, reflector.Options{})
		after(3*time.Minute + 10*time.Second)
		if got := r.slot.Load().ResourceVersion; got != "8" || source.count("list") != 1 {
			t.Errorf("got version %s after %q, want 8 of another stream, after one list", got, source.asked())
		}
	})
}

// A list that Stop, Refresh or Pause ends is none that has failed: other silent streams are verified.
func TestVerificationsThatAreEnded(t *testing.T) {
	tests := map[string]func(*rig){
		"Stop":    func(r *rig) { r.stop() },
		"Refresh": func(r *rig) { r.Refresh() },
		"Pause":   func(r *rig) { r.Pause() },
	}
	eachCase(t, tests, func(t *testing.T, end func(*rig)) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		var ended, others []*rig
		for range 4 {
			source := hangingLists{&fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))}}
			ended = append(ended, start(t, source, options))
		}
		after(time.Minute)
		for range 20 {
			source := &fakeSource{onList: lists(brings("7", secret("5"))), onWatch: streams(opens(state(secret("5"), "7")...))}
			others = append(others, start(t, source, options))
		}
		after(75 * time.Second)
		for _, r := range ended {
			end(r)
		}
		after(75 * time.Second)
		for i, r := range others {
			if got := r.source.asked(); len(got) != 2 || got[1] != "list " {
				t.Fatalf("stream %d: got %q, want the stream kept, and one list", i, got)
			}
		}
	})
}

// A silent stream whose lists fail is kept if WatchLists fail, too: the watch may be all that works. Its lists pause.
func TestSilentStreamWhereAllElseFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := &fakeSource{onList: lists(brings("7", secret("5")), listFails(forbidden())), onWatch: streams(opens())}
		r := start(t, listing(source), reflector.Options{})
		after(50 * time.Minute)
		if got := r.Status(); !got.Streaming || source.count("watch") != 1 {
			t.Errorf("got %+v after %d watches, want the stream kept", got, source.count("watch"))
		}
		if got := source.count("list"); got < 20 || got > 30 {
			t.Errorf("lists in 50 minutes: got %d, want one each 2 minutes", got)
		}
	})
}

// A proxy holds the answer to the watch after a list back until the first event, which is a bookmark. That is no watch
// that fails.
func TestWatchWhoseAnswerIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := &fakeSource{onList: lists(brings("7", secret("5"))), onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			time.Sleep(time.Minute)
			return newStream(event(watch.Modified, secret("8"))), nil
		}}
		r := start(t, listing(source), reflector.Options{})
		after(2 * time.Minute)
		if got := r.Status(); !got.Streaming || got.Polled || got.LastError != nil || r.slot.Load().ResourceVersion != "8" {
			t.Errorf("got %+v, want a stream with version 8", got)
		}
	})
}
