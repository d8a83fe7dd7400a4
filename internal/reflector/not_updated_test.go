// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/reflector"
)

// NotUpdatedSince is set from the end of a stream, or the begin of a read, until the next state is followed or read.
func TestNotUpdatedSince(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		first, second, listed := newStream(state(secret("5"), "7")...), newStream(state(secret("5"), "9")...), make(chan struct{})
		source := watching(first.answer, fails(errDown), fails(errDown), second.answer)
		source.onList = func(metav1.ListOptions) (runtime.Object, error) { <-listed; return list("9", secret("5")), nil }
		r := start(t, source, reflector.Options{})
		var since time.Time
		want := func(when string) {
			t.Helper()
			after(time.Millisecond)
			if got := r.Status().NotUpdatedSince; !got.Equal(since) {
				t.Errorf("%s: got %v, want %v", when, got, since)
			}
		}
		want("a stream is open")
		after(time.Minute)
		since = time.Now()
		first.finish(io.EOF)
		want("it has ended")
		for r.Status().Failures == 0 {
			after(10 * time.Millisecond)
		}
		want("the next attempt has failed")
		after(time.Minute)
		since = time.Time{}
		want("another stream is open")

		r.Pause()
		want("paused")
		after(time.Minute)
		since = time.Now()
		r.Read()
		want("a read is under way")
		after(time.Second)
		r.Read()
		want("another one is asked for")
		close(listed)
		since = time.Time{}
		want("it is done")
		after(time.Minute)
		since = time.Now()
		source.mu.Lock()
		source.onWatch = streams(fails(errDown))
		source.mu.Unlock()
		r.Follow()
		want("no stream opens")
		r.Pause()
		want("paused meanwhile")
	})
}
