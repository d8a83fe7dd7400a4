// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// ReadFor makes one read a consistent one, the next that begins.
func TestReadFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newStream(state(secret("5"), "7")...)
		r := start(t, &fakeSource{onWatch: streams(
			func() (listwatch.Stream, error) { return first, nil },
			fails(errors.New("reset")),
			breaks(io.EOF, state(secret("5"), "8")...),
			opens(state(secret("5"), "9")...),
		)}, reflector.Options{})
		if got := r.Status().ReadFor; got != 0 {
			t.Errorf("to begin with: got %d, want 0", got)
		}
		r.ReadFor(3)
		after(time.Minute)
		if got := r.Status(); got.ReadFor != 0 || len(r.source.seen()) != 1 {
			t.Errorf("before the next read: got %+v, want the stream left alone", got)
		}
		first.finish(io.EOF)
		after(time.Minute)
		if got := r.Status().ReadFor; got != 3 {
			t.Errorf("after it: got %d, want 3", got)
		}
		var versions []string
		for _, request := range r.source.seen() {
			versions = append(versions, request.options.ResourceVersion)
		}
		if want := []string{"", "", "", "8"}; !slices.Equal(versions, want) {
			t.Errorf("versions asked for: got %q, want %q", versions, want)
		}
	})
}

// A read that has begun does not count for what is asked for meanwhile.
func TestReadForDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newStream()
		r := start(t, &fakeSource{onWatch: streams(func() (listwatch.Stream, error) { return first, nil }, opens(state(secret("5"), "9")...))}, reflector.Options{})
		r.ReadFor(1)
		for _, event := range state(secret("5"), "7") {
			first.events <- event
		}
		after(time.Second)
		if got := r.Status(); !got.Synced || got.ReadFor != 0 {
			t.Errorf("got %+v, want it synced, and not for 1", got)
		}
		first.finish(io.EOF)
		after(time.Second)
		if got := r.Status().ReadFor; got != 1 {
			t.Errorf("after the next read: got %d, want 1", got)
		}
	})
}

func TestStatusOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, watches := make(chan struct{}), make(chan struct{})
		stream := newStream()
		source := &fakeSource{
			onList: func(metav1.ListOptions) (runtime.Object, error) { <-lists; return list("7", *secret("5")), nil },
			onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
				<-watches
				return stream, nil
			},
		}
		asked := time.Now()
		r := start(t, listOnly{source}, reflector.Options{})
		after(3 * time.Second)
		if got := r.Status(); got.Streaming || !got.AskedAt.Equal(asked) {
			t.Errorf("while it lists: got %+v, want it asked for at %v", got, asked)
		}
		close(lists)
		after(time.Second)
		if got := r.Status(); got.Streaming || !got.Synced || !got.AskedAt.IsZero() {
			t.Errorf("before the watch is open: got %+v, want it synced, and no stream", got)
		}
		close(watches)
		after(time.Second)
		if got := r.Status(); !got.Streaming {
			t.Errorf("on an open stream: got %+v, want it streaming", got)
		}
		source.onWatch = streams(fails(errors.New("reset")))
		stream.finish(io.EOF)
		after(time.Second)
		if got := r.Status(); got.Streaming {
			t.Errorf("after its end: got %+v, want no stream", got)
		}
	})
}

// A path that is not served is a refusal.
func TestNotServed(t *testing.T) {
	answer := apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", resource, key.Name, "default backend", 0, true)
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(fails(answer))}, reflector.Options{})
		after(time.Second)
		status := r.Status()
		if !apierrors.IsNotFound(status.LastError) {
			t.Errorf("last error: got %#v, want the 404", status.LastError)
		}
		if got := failure.Of(status.LastError); got != failure.Refused || status.RefusedSince.IsZero() {
			t.Errorf("class: got %s, want Refused", got)
		}
	})
}
