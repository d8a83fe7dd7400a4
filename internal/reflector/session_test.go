// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

func TestOpensWithWatchList(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{})
		if got := r.slot.Load(); !got.Synced || got.ResourceVersion != "5" {
			t.Errorf("state: got %+v, want synced at 5", got)
		}
		requests := r.source.seen()
		if len(requests) != 1 || requests[0].verb != "watch" {
			t.Fatalf("requests: got %+v, want one watch", requests)
		}
		o := requests[0].options
		if o.ResourceVersion != "" || o.SendInitialEvents == nil || !*o.SendInitialEvents ||
			o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan || !o.AllowWatchBookmarks {
			t.Errorf("options: got %+v, want a consistent WatchList", o)
		}
		if o.TimeoutSeconds == nil || *o.TimeoutSeconds < 1800 || *o.TimeoutSeconds > 3240 {
			t.Errorf("timeoutSeconds: got %v, want 1800 to 3240", o.TimeoutSeconds)
		}
	})
}

// A plain watch at a version from the future is silent for ever. So every later stream
// also begins with the state, at the last version seen.
func TestResumesWithWatchList(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(
			breaks(io.EOF, append(state(secret("5"), "7"), event(watch.Modified, secret("9")))...),
			breaks(io.EOF, append(state(secret("9"), "9"), bookmark("12", false))...),
			opens(state(secret("9"), "12")...),
		), reflector.Options{})
		after(time.Minute)
		if got, want := r.source.asked(), []string{"WatchList ", "WatchList 9", "WatchList 12"}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want %q", got, want)
		}
	})
}

func TestListAndWatchWithoutWatchList(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, listing(&fakeSource{
			onList:  lists(brings("7", secret("5")), brings("11", secret("9"))),
			onWatch: streams(breaks(io.EOF, event(watch.Modified, secret("9"))), opens()),
		}), reflector.Options{})
		after(time.Minute)
		if got := r.slot.Load(); got.ResourceVersion != "9" {
			t.Errorf("state: got %+v, want version 9", got)
		}
		if got, want := r.source.asked(), []string{"list ", "watch 7", "list 9", "watch 11"}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want %q", got, want)
		}
		for _, request := range r.source.seen() {
			if o := request.options; o.Limit != 0 || o.Continue != "" {
				t.Errorf("%s: got options %+v, want no limit and no continue", request.verb, o)
			}
		}
	})
}

// A WatchList whose initial events do not end is given up for a list.
func TestInitialEventsThatNeverEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, &fakeSource{
			onList:  lists(brings("7", secret("5"))),
			onWatch: streams(opens(event(watch.Added, secret("5"))), opens()),
		}, reflector.Options{})
		after(14 * time.Second)
		if r.slot.Load().Synced {
			t.Error("synced without the bookmark")
		}
		after(2 * time.Second)
		if got := r.slot.Load(); !got.Synced || got.ResourceVersion != "5" {
			t.Errorf("state: got %+v, want it read by a list", got)
		}
		if got := r.Status(); got.LastError == nil {
			t.Error("status: no cause for the stream given up")
		}
	})
}

func TestNoAnswerIsAFailure(t *testing.T) {
	tests := map[string]listwatch.Source{"watch": blocking{}, "list": blockingLists{}}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, source listwatch.Source) {
			r := start(t, source, reflector.Options{})
			after(59 * time.Second)
			if got := r.Status(); got.Failures != 0 {
				t.Errorf("status before a minute: got %+v, want no failure yet", got)
			}
			after(10 * time.Second)
			if got := r.Status(); got.Failures != 1 || failure.Of(got.LastError) != failure.Unreachable || got.AskedAt.IsZero() {
				t.Errorf("status after a minute: got %+v, want a failure and another attempt", got)
			}
		})
	})
}

// client-go returns io.EOF for a connection that is closed before the answer. That is
// not the regular end of a stream.
func TestEOFInsteadOfAnAnswer(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		tests := map[string]listwatch.Source{
			"watch":              watching(fails(io.EOF)),
			"list":               listing(&fakeSource{onList: lists(listFails(io.EOF))}),
			"watch after a list": listing(&fakeSource{onList: lists(brings("7")), onWatch: streams(fails(io.EOF))}),
		}
		eachCase(t, tests, func(t *testing.T, source listwatch.Source) {
			r := start(t, source, reflector.Options{})
			if got := r.Status(); got.LastError == nil || failure.Of(got.LastError) != failure.Unreachable {
				t.Errorf("status: got %+v, want a failure of the connection", got)
			}
		})
	})
}

// A bookmark after the state that cannot be used is ignored, as by client-go, and it is no contact. One that comes with
// the initial events is not: it may be their end.
func TestBookmarkThatCannotBeUsed(t *testing.T) {
	tests := map[string]watch.Event{
		"at 0":           bookmark("0", false),
		"no version":     bookmark("", false),
		"a Status":       event(watch.Bookmark, &metav1.Status{}),
		"a list":         event(watch.Bookmark, list("8", secret("8"))),
		"nothing":        event(watch.Bookmark, nil),
		"a foreign kind": event(watch.Bookmark, &corev1.ConfigMap{}),
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, unusable watch.Event) {
			stream, began := newStream(state(secret("5"), "7")...), time.Now()
			source := &fakeSource{onWatch: streams(stream.answer), onList: lists(brings("7", secret("5")))}
			r := start(t, source, reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{})})
			for range 90 {
				after(time.Second)
				stream.events <- unusable
				synctest.Wait()
			}
			if got := r.Status(); !got.LastContact.Equal(began) || got.Malformed > 0 || got.LastError != nil || source.count("WatchList") != 1 {
				t.Errorf("got %+v after %q, want the stream kept, and no contact", got, source.asked())
			}
			after(2 * time.Minute)
			if got := source.count("list"); got != 1 {
				t.Errorf("got %d lists, want that of a silent stream", got)
			}
		})
		eachCase(t, tests, func(t *testing.T, unusable watch.Event) {
			r := start(t, watching(opens(unusable), opens(state(secret("5"), "9")...)), reflector.Options{})
			after(10 * time.Second)
			if got := r.Status(); unusable.Object != nil && got.Malformed != 1 || !got.Synced {
				t.Errorf("among the initial events: got %+v, want a malformed answer, and then the state", got)
			}
		})
	})
}

// A stream has an end of its own: a server or a proxy may ignore timeoutSeconds. Not all end at once.
func TestStreamThatTheServerDoesNotEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		began := time.Now()
		var ended []time.Duration
		var rigs []*rig
		for range 20 {
			time.Sleep(77 * time.Millisecond)
			source := &fakeSource{onList: lists(brings("7", secret("5"))), onWatch: streams(opens(state(secret("5"), "7")...))}
			rigs = append(rigs, start(t, source, reflector.Options{Gate: gate, Resource: "secrets"}))
		}
		after(61 * time.Minute)
		for i, r := range rigs {
			watches := slices.DeleteFunc(r.source.seen(), func(r request) bool { return r.kind() != "WatchList" })
			if len(watches) != 2 {
				t.Fatalf("stream %d: got %d WatchLists in 61 minutes, want 2", i, len(watches))
			}
			ended = append(ended, watches[1].at.Sub(watches[0].at))
		}
		if first, last := slices.Min(ended), slices.Max(ended); first < 54*time.Minute || last > time.Hour || last-first < time.Minute {
			t.Errorf("began at %v: streams ended after %v to %v, want 54 to 60 minutes, and not all at once", began, first, last)
		}
	})
}

// An event that cannot belong to the selection ends the stream, for a consistent read.
func TestForeignObjectStartsOver(t *testing.T) {
	tests := map[string]watch.Event{
		"another name":        event(watch.Modified, otherSecret("8")),
		"another type":        event(watch.Added, &corev1.ConfigMap{}),
		"another one deleted": event(watch.Deleted, otherSecret("8")),
		"no version":          event(watch.Modified, secret("")),
		"error, no status":    event(watch.Error, otherSecret("8")),
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, foreign watch.Event) {
			r := start(t, watching(
				opens(append(state(secret("5"), "7"), foreign)...),
				opens(state(secret("5"), "9")...),
			), reflector.Options{})
			after(time.Second)
			if got := r.slot.Load(); !got.Exists || got.Object.Name != key.Name || got.ResourceVersion != "5" {
				t.Errorf("state: got %+v, want the object of the selection at 5", got)
			}
			if got := r.Status().Malformed; got != 1 {
				t.Errorf("malformed: got %d, want 1", got)
			}
			if got, want := r.source.asked(), []string{"WatchList ", "WatchList "}; !slices.Equal(got, want) {
				t.Errorf("requests: got %q, want a second consistent read", got)
			}
		})
	})
}

func TestForeignListIsNotStored(t *testing.T) {
	tests := map[string]runtime.Object{
		"another name":    list("9", otherSecret("8")),
		"mixed":           list("9", secret("5"), otherSecret("8")),
		"two of the name": list("9", secret("5"), secret("6")),
		"newer than read": list("4", secret("5")),
		"not a list":      secret("5"),
		"no version":      list("", secret("5")),
		"version zero":    list("0", secret("5")),
		"a table":         &metav1.Table{ListMeta: metav1.ListMeta{ResourceVersion: "9"}},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, foreign runtime.Object) {
			r := start(t, listing(&fakeSource{
				onList:  func(metav1.ListOptions) (runtime.Object, error) { return foreign, nil },
				onWatch: streams(opens()),
			}), reflector.Options{})
			after(time.Second)
			if got := r.slot.Load(); got.Synced || got.Exists {
				t.Errorf("state: got %+v, want it not synced", got)
			}
			if got := r.Status(); failure.Of(got.LastError) != failure.Malformed {
				t.Errorf("class: got %q (%v), want Malformed", failure.Of(got.LastError), got.LastError)
			}
		})
	})
}

// A page is not the state, and the next page is not asked for: a Role with
// resourceNames is for one request.
func TestPageIsNotStored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		page := list("7")
		page.Continue = "more"
		pages := 0
		r := start(t, listing(&fakeSource{
			onList: func(metav1.ListOptions) (runtime.Object, error) {
				if pages++; pages > 100 {
					return list("7"), nil // the end, if a reflector does ask for them
				}
				return page, nil
			},
			onWatch: streams(opens()),
		}), reflector.Options{})
		after(time.Minute)
		if got := r.Status(); got.Synced || failure.Of(got.LastError) != failure.Malformed {
			t.Errorf("status: got %+v, want it Malformed", got)
		}
		if got := len(r.source.seen()); got > 15 {
			t.Errorf("requests in a minute: got %d, want those of the back-off", got)
		}
	})
}

// The error about an object without a version names where such objects come from.
func TestObjectsWithoutVersions(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		tests := map[string]listwatch.Source{
			"list":  listing(&fakeSource{onList: lists(brings("7", secret("")))}),
			"watch": watching(opens(state(secret(""), "7")...)),
		}
		eachCase(t, tests, func(t *testing.T, source listwatch.Source) {
			r := start(t, source, reflector.Options{})
			if err := r.Status().LastError; err == nil || !strings.Contains(err.Error(), "fake clientset") {
				t.Errorf("error: got %v, want the fake clientset in it", err)
			}
		})
	})
}

// A stream is closed when the session ends, whatever ended it.
func TestStreamIsClosed(t *testing.T) {
	synced := state(secret("5"), "7")
	type test struct {
		initial []watch.Event
		end     func(*fakeStream, *rig)
	}
	eof := func(s *fakeStream, _ *rig) { s.finish(io.EOF) }
	broken := func(s *fakeStream, _ *rig) { s.finish(io.ErrUnexpectedEOF) }
	foreign := func(s *fakeStream, _ *rig) { s.events <- event(watch.Added, &corev1.Pod{}) }
	gone := func(s *fakeStream, _ *rig) { s.events <- event(watch.Error, &metav1.Status{Code: 410}) }
	stop := func(_ *fakeStream, r *rig) { r.stop() }
	tests := map[string]test{
		"end":                                   {synced, eof},
		"end, before the state":                 {nil, eof},
		"broken":                                {synced, broken},
		"broken, before the state":              {nil, broken},
		"foreign object":                        {synced, foreign},
		"foreign object, before the state":      {nil, foreign},
		"error event":                           {synced, gone},
		"error event, before the state":         {nil, gone},
		"stop":                                  {synced, stop},
		"stop, before the state":                {nil, stop},
		"refresh":                               {synced, func(_ *fakeStream, r *rig) { r.Refresh() }},
		"no bookmark in time, before the state": {nil, func(*fakeStream, *rig) { after(15 * time.Second) }},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			stream := newStream(test.initial...)
			r := start(t, watching(stream.answer, opens(state(secret("5"), "9")...)), reflector.Options{})
			test.end(stream, r)
			after(time.Second)
			select {
			case <-stream.closed:
			default:
				t.Error("the stream is not closed")
			}
		})
	})
}
