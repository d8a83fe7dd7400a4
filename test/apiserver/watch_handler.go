// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// minTimeout and the double of it bound how long a watch without timeoutSeconds lasts: kube-apiserver's
// --min-request-timeout.
const minTimeout = 30 * time.Minute

// lastBookmark is how long before its end a stream gets a final bookmark, as in kube-apiserver.
const lastBookmark = 2 * time.Second

// stream writes one watch to its client.
type stream struct {
	*call
	watcher   *watcher
	out       output
	bookmarks bool
	deadline  time.Time
	frames    io.Writer
	flush     func() error
}

// watch serves a watch. Errors about the request itself are answers; those of the watch cache come as an
// ERROR event in a stream with status 200, as kube-apiserver sends them.
func (c *call) watch() error {
	options, err := c.listOptions()
	if err != nil {
		return err
	}
	out, err := negotiateOutput(c.r, true)
	if err != nil {
		return err
	}
	version, invalid := parseVersion(options.ResourceVersion)
	if invalid != nil {
		// 422 where a list answers 400, and the resource for a kind: so does kube-apiserver.
		return apierrors.NewInvalid(schema.GroupKind{Kind: c.table.resource.name}, c.request.Name, field.ErrorList{invalid})
	}
	// Without the WatchList feature there is still the old promise that "" and "0" bring the state first; only
	// the bookmark that ends it is of WatchList.
	watchList := isTrue(options.SendInitialEvents)
	w, events, watchErr := c.store.watch(c.table, c.selection(options), start{
		request: &c.request, version: version,
		initial: watchList || options.SendInitialEvents == nil && version == 0,
		endMark: watchList && options.AllowWatchBookmarks,
	}, c.options.WatchBuffer)
	if watchErr == nil {
		defer c.store.forget(c.table, w)
		c.records.stream(&c.request, 1)
		defer c.records.stream(&c.request, -1)
	}
	s := &stream{call: c, watcher: w, out: out, bookmarks: options.AllowWatchBookmarks, deadline: time.Now().Add(timeout(options))}
	s.begin()
	if watchErr == nil {
		s.run(events)
	} else if err := s.write(watch.Event{Type: watch.Error, Object: statusOf(watchErr)}); err == nil {
		_ = s.flush()
	}
	return nil
}

func timeout(options *internalversion.ListOptions) time.Duration {
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds > 0 {
		return time.Duration(*options.TimeoutSeconds) * time.Second
	}
	return minTimeout + rand.N(minTimeout)
}

// begin sends the headers at once: a client's call returns before there is an event.
func (s *stream) begin() {
	contentType := s.out.MediaType
	if contentType != runtime.ContentTypeJSON {
		contentType += ";stream=watch"
	}
	s.w.Header().Set("Content-Type", contentType)
	s.w.WriteHeader(http.StatusOK)
	s.frames = s.out.StreamSerializer.Framer.NewFrameWriter(s.w)
	s.flush = http.NewResponseController(s.w).Flush
	_ = s.flush()
}

// run writes events until the client goes, time is up, the watcher is ended, or the server closes.
func (s *stream) run(events []*event) {
	next := s.nextBookmark()
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for open := true; open; {
		if err := s.send(events); err != nil {
			return
		}
		select {
		case <-s.watcher.wake:
		case <-timer.C:
			if !time.Now().Before(s.deadline) {
				return
			}
			s.store.bookmark(s.watcher)
			next = s.nextBookmark()
			timer.Reset(time.Until(next))
		case <-s.r.Context().Done():
			return
		}
		events, open = s.watcher.take()
	}
}

// nextBookmark is when the timer rings next: for a bookmark, or for the end.
func (s *stream) nextBookmark() time.Time {
	now := time.Now()
	if last := s.deadline.Add(-lastBookmark); s.bookmarks && now.Before(last) {
		return earlier(now.Add(s.options.BookmarkInterval), last)
	}
	return s.deadline
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// send writes the events that concern the client, and flushes once.
func (s *stream) send(events []*event) error {
	sent := false
	for _, e := range events {
		out, ok := s.toWatchEvent(e)
		if !ok {
			continue
		}
		if err := s.write(out); err != nil {
			return err
		}
		sent = true
	}
	if !sent {
		return nil
	}
	return s.flush()
}

func (s *stream) toWatchEvent(e *event) (watch.Event, bool) {
	if !e.bookmark {
		return e.forSelection(s.watcher.selection)
	}
	obj := s.table.resource.newObject()
	obj.SetResourceVersion(formatVersion(e.version))
	if e.initialEnd {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}, true
}

// write sends one frame: the object encoded in the media type, inside the event encoded in its stream form.
func (s *stream) write(e watch.Event) error {
	obj, err := s.convert(e.Object, s.out.as, time.Now())
	if err != nil {
		return err
	}
	// Not kept: ten thousand idle streams must not hold ten thousand buffers.
	var encoded bytes.Buffer
	if err := s.out.Serializer.Encode(obj, &encoded); err != nil {
		return err
	}
	return s.out.StreamSerializer.Encode(&metav1.WatchEvent{
		Type: string(e.Type), Object: runtime.RawExtension{Raw: encoded.Bytes()},
	}, s.frames)
}
