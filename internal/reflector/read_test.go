// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// A reflector that reads pauses after the read, with no stream open.
func TestRead(t *testing.T) {
	type test struct {
		lists   []listAnswer
		watches []watchAnswer
		want    []string // the requests
	}
	var opened *fakeStream
	watchable := func() (listwatch.Stream, error) {
		opened = newStream(state(secret("5"), "9")...)
		return opened, nil
	}
	well := brings("9", secret("5"))
	tests := map[string]test{
		"list": {lists: []listAnswer{well}, want: []string{"list "}},
		"retried": {
			lists: []listAnswer{listFails(unreadable()), listFails(io.EOF), well}, watches: []watchAnswer{fails(unreadable())},
			want: []string{"list ", "list ", "WatchList ", "list "},
		},
		"lists fail": {
			lists: []listAnswer{listFails(unreadable())}, watches: []watchAnswer{watchable}, want: []string{"list ", "list ", "WatchList "},
		},
		"may watch only":   {lists: []listAnswer{listFails(forbidden())}, watches: []watchAnswer{watchable}, want: []string{"list ", "WatchList "}},
		"refused at first": {lists: []listAnswer{listFails(forbidden()), well}, watches: []watchAnswer{fails(forbidden())}, want: []string{"list ", "WatchList ", "list "}},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			opened = nil
			source := &fakeSource{onList: lists(test.lists...)}
			if len(test.watches) > 0 {
				source.onWatch = streams(test.watches...)
			}
			r := start(t, source, reflector.Options{}, (*reflector.Reflector).Read)
			after(10 * time.Second)
			if got := r.slot.Load(); got.ResourceVersion != "5" {
				t.Errorf("state: got %+v, want version 5", got)
			}
			if got := r.source.asked(); !slices.Equal(got, test.want) {
				t.Errorf("requests: got %q, want %q", got, test.want)
			}
			if got := r.Status(); !got.Synced || got.Streaming {
				t.Errorf("status: got %+v, want Synced without a stream", got)
			}
			if opened == nil {
				return
			}
			select {
			case <-opened.closed:
			default:
				t.Error("the stream is open, want it closed")
			}
		})
	})
}
