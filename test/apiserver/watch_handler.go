// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"errors"
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

// minTimeout is the default of kube-apiserver's --min-request-timeout. A watch without timeoutSeconds lasts between
// minTimeout and twice as long.
const minTimeout = 30 * time.Minute

// lastBookmark is the time between the last bookmark and the end of a watch, as in kube-apiserver.
const lastBookmark = 2 * time.Second

// stream sends the events of one watch to its client.
type stream struct {
	*call
	watcher   *watcher
	out       output
	bookmarks bool
	deadline  time.Time
	frames    io.Writer
	flush     func() error
}

// watch serves a watch. It returns errors in the request. As in kube-apiserver, errors of the watch cache are sent as
// an ERROR event in a stream with status 200.
func (c *call) watch() error {
	options, err := c.listOptions()
	if err != nil {
		return err
	}
	out, err := negotiateOutput(c.r, c.table.resource.custom, true)
	if err != nil {
		return err
	}
	version, invalid := parseVersion(options.ResourceVersion)
	if invalid != nil {
		// kube-apiserver has 422 here, 400 for a list, and the resource name as the kind.
		return apierrors.NewInvalid(schema.GroupKind{Kind: c.table.resource.name}, c.request.Name, field.ErrorList{invalid})
	}
	// Without sendInitialEvents, a watch at "" or "0" begins with the state too, but without the bookmark that ends it.
	watchList := isTrue(options.SendInitialEvents)
	if watchList {
		version = c.cache.consistent(options.ResourceVersion, version)
		c.cache.awaitCache(c.r.Context(), version)
	}
	w, events, watchErr := c.cache.watch(c.table, c.selection(options), start{
		request: &c.request, version: version,
		initial:     watchList || options.SendInitialEvents == nil && version == 0,
		endBookmark: watchList && options.AllowWatchBookmarks,
	}, c.options.WatchBuffer)
	if watchErr == nil {
		defer c.store.removeWatcher(c.table, w)
		c.records.stream(&c.request, 1)
		defer c.records.stream(&c.request, -1)
	}
	s := &stream{call: c, watcher: w, out: out, bookmarks: options.AllowWatchBookmarks, deadline: time.Now().Add(timeout(options))}
	if err := s.begin(); err != nil {
		return nil //nolint:nilerr // The client has disconnected, or a fault has ended the body.
	}
	if watchErr == nil {
		s.run(events)
	} else {
		_ = s.send(s.rewriteEvent(watch.Event{Type: watch.Error, Object: statusOf(watchErr)}))
	}
	return nil
}

func timeout(options *internalversion.ListOptions) time.Duration {
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds > 0 {
		return time.Duration(*options.TimeoutSeconds) * time.Second
	}
	return minTimeout + rand.N(minTimeout)
}

// begin sends the headers at once, so that the client's call returns before the first event.
func (s *stream) begin() error {
	contentType := s.out.MediaType
	if contentType != runtime.ContentTypeJSON {
		contentType += ";stream=watch"
	}
	s.w.Header().Set("Content-Type", contentType)
	s.w.WriteHeader(http.StatusOK)
	s.frames = s.out.StreamSerializer.Framer.NewFrameWriter(s.w)
	s.flush = http.NewResponseController(s.w).Flush
	return s.flush()
}

// run sends events until the client disconnects, the deadline is reached, the watcher ends or the server closes.
func (s *stream) run(events []*event) {
	next := s.nextTimer()
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for open := true; open; {
		if err := s.sendSelected(events); err != nil {
			return
		}
		select {
		case <-s.watcher.wake:
		case <-timer.C:
			if !time.Now().Before(s.deadline) {
				return
			}
			s.cache.bookmark(s.watcher)
			next = s.nextTimer()
			timer.Reset(time.Until(next))
		case <-s.r.Context().Done():
			return
		}
		events, open = s.watcher.take()
	}
}

// nextTimer returns the time of the next bookmark, or the deadline if there is none before it.
func (s *stream) nextTimer() time.Time {
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

// errStreamError ends a stream after an ERROR event, as kube-apiserver does.
var errStreamError = errors.New("an ERROR event ends the stream")

// sendSelected sends the events that the watch selects, after the Rewriter. Because a Rewriter may block, the client
// gets what precedes an event before the Rewriter gets that event.
func (s *stream) sendSelected(events []*event) error {
	rewrite := s.faults.rewrite().Event
	var unsent []watch.Event
	for _, e := range events {
		out, ok := s.toWatchEvent(e)
		switch {
		case !ok:
		case rewrite == nil || e.injected != nil:
			unsent = append(unsent, out)
		default:
			if err := s.send(unsent); err != nil {
				return err
			}
			unsent = s.rewriteEvent(out)
		}
	}
	return s.send(unsent)
}

// send writes the events, and flushes once.
func (s *stream) send(events []watch.Event) error {
	for _, e := range events {
		if err := s.write(e); err != nil {
			return err
		}
		if e.Type == watch.Error {
			_ = s.flush()
			return errStreamError
		}
	}
	if len(events) == 0 {
		return nil
	}
	return s.flush()
}

func (s *stream) toWatchEvent(e *event) (watch.Event, bool) {
	if e.injected != nil {
		return *e.injected, true
	}
	if !e.bookmark {
		return e.forSelection(s.watcher.selection)
	}
	obj := s.table.resource.newObject()
	obj.SetResourceVersion(formatVersion(e.version))
	if e.endsInitialEvents {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}, true
}

// write writes one frame: the event in the stream form of the media type, with the encoded object in it.
func (s *stream) write(e watch.Event) error {
	obj, err := s.convert(e.Object, s.out.as, time.Now())
	if err != nil {
		return err
	}
	// Do not keep the buffer: ten thousand idle streams must not hold ten thousand buffers.
	var encoded bytes.Buffer
	if err := s.out.Serializer.Encode(obj, &encoded); err != nil {
		return err
	}
	return s.out.StreamSerializer.Encode(&metav1.WatchEvent{
		Type: string(e.Type), Object: runtime.RawExtension{Raw: encoded.Bytes()},
	}, s.frames)
}
