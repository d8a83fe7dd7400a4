// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/test/apiserver"
)

// The faults of the events of watches, of lists, and of the watch cache.

// eventsLost is a fault after which bookmarks have a newer version than the state that was sent.
const eventsLost = "events-lost"

func init() {
	addFaults(
		Fault{1, "expired-in-stream", OfServer, usualRecovery, sends(apierrors.NewResourceExpired("The resourceVersion is too old."))},
		Fault{2, "watch-cache-stopped", OfServer, usualRecovery, lags(3 * time.Second)},
		Fault{2, "watch-cache-stopped-error-at-once", OfServer, usualRecovery, lags(0)},
		Fault{2, "watch-cache-stopped-old-message", OfServer, usualRecovery, lagsInOldWords},
		Fault{5, "events-repeated", OfObjects, usualRecovery, func(w *World, t Target) func() {
			return w.changeEvents(t, func(_ apiserver.Request, e watch.Event) []watch.Event { return []watch.Event{e, e} })
		}},
		Fault{5, "old-events-repeated", OfObjects, usualRecovery, repeatsOldEvents},
		Fault{6, eventsLost, OfObjects, lostRecovery, func(w *World, t Target) func() {
			return w.changeEvents(t, func(_ apiserver.Request, e watch.Event) []watch.Event {
				switch e.Type {
				case watch.Modified, watch.Deleted, watch.Bookmark:
					return nil
				}
				// An initial event, perhaps with a type that another fault has given it: without it
				// the server would say that there is no object.
				return []watch.Event{e}
			})
		}},
		Fault{8, "error-in-stream", OfServer, usualRecovery, sends(apierrors.NewInternalError(errors.New("etcdserver: no leader")))},
		Fault{21, "unknown-event-type", OfObjects, usualRecovery, func(w *World, t Target) func() {
			return w.changeEvents(t, func(_ apiserver.Request, e watch.Event) []watch.Event {
				return []watch.Event{{Type: "UNKNOWN", Object: e.Object}}
			})
		}},
		Fault{22, "other-name", OfObjects, usualRecovery, mutates(func(o metav1.Object) { o.SetName("other-" + o.GetName()) })},
		Fault{22, "other-namespace", OfObjects, usualRecovery, mutates(func(o metav1.Object) { o.SetNamespace("other") })},
		Fault{22, "other-type", OfObjects, usualRecovery, func(w *World, t Target) func() {
			return w.reopensEvents(t, func(_ apiserver.Request, e watch.Event) []watch.Event {
				return []watch.Event{{Type: e.Type, Object: podLike(e.Object)}}
			})
		}},
		Fault{22, "other-type-in-bookmarks", OfObjects, usualRecovery, sendsBookmarksOfPods},
		Fault{22, "other-type-of-list", OfObjects, usualRecovery, listsNoPods},
		Fault{22, "two-items", OfObjects, usualRecovery, func(w *World, t Target) func() {
			return w.mutateLists(t, func(items []runtime.Object) []runtime.Object {
				if len(items) == 0 {
					return items
				}
				other := items[0].DeepCopyObject()
				other.(metav1.Object).SetName("other")
				return append(items, other)
			})
		}},
		Fault{23, "version-missing", OfObjects, usualRecovery, mutates(func(o metav1.Object) { o.SetResourceVersion("") })},
		Fault{23, "version-zero", OfObjects, usualRecovery, mutates(func(o metav1.Object) { o.SetResourceVersion("0") })},
		Fault{23, "version-not-a-number", OfObjects, usualRecovery, mutates(func(o metav1.Object) { o.SetResourceVersion("new") })},
		// A WatchList that began before the end of the fault ends 15 s after its begin, and a list follows.
		Fault{29, "no-end-of-initial-events", OfObjects, usualRecovery + 15*time.Second, func(w *World, t Target) func() {
			remove := w.changeBookmarks(t)
			w.closeStreams(t)
			return remove
		}},
	)
}

// lostRecovery is how soon a lost event is noticed: when the server ends the stream, after 30 to 60 minutes. Nothing
// reads an object again before that while its stream delivers bookmarks.
const lostRecovery = 61 * time.Minute

// sends sends an error on all streams.
func sends(err *apierrors.StatusError) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		status := err.ErrStatus.DeepCopy()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		reached := w.server.Send(func(r apiserver.Request) bool { return ofSubjects(r) && t.Has(r) }, watch.Event{Type: watch.Error, Object: status})
		w.effects.Add(int64(reached))
		return nil
	}
}

// lags stops the watch cache. The streams end, so that their successors meet it.
func lags(wait time.Duration) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		for _, s := range t.servers() {
			w.lags[s]++
			s.Lag(wait)
		}
		w.closeStreams(t)
		return func() {
			for _, s := range t.servers() {
				if w.lags[s]--; w.lags[s] == 0 {
					s.CatchUp()
				}
			}
		}
	}
}

// lagsInOldWords is lags with the error of servers before 1.17: without a cause.
func lagsInOldWords(w *World, t Target) func() {
	withoutCause := func(object runtime.Object) runtime.Object {
		if status, ok := object.(*metav1.Status); ok && status.Reason == metav1.StatusReasonTimeout {
			status.Details = nil
		}
		return object
	}
	inLists := w.answers(func(_ apiserver.Request, object runtime.Object) runtime.Object { return withoutCause(object) })
	inStreams := w.events(func(_ apiserver.Request, e watch.Event) []watch.Event {
		return []watch.Event{{Type: e.Type, Object: withoutCause(e.Object)}}
	})
	catchUp := lags(0)(w, t)
	return func() {
		inLists()
		inStreams()
		catchUp()
	}
}

// changeEvents changes the events that are neither errors nor bookmarks.
func (w *World) changeEvents(t Target, f func(apiserver.Request, watch.Event) []watch.Event) (remove func()) {
	return w.events(func(request apiserver.Request, e watch.Event) []watch.Event {
		if !t.Has(request) || e.Type == watch.Error || e.Type == watch.Bookmark {
			return []watch.Event{e}
		}
		w.reached()
		return f(request, e)
	})
}

// reopensEvents is changeEvents, and ends the streams that are open.
func (w *World) reopensEvents(t Target, f func(apiserver.Request, watch.Event) []watch.Event) (heal func()) {
	remove := w.changeEvents(t, f)
	w.closeStreams(t)
	return remove
}

// podLike returns a Pod with the name and version of an object.
func podLike(object runtime.Object) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	if object, ok := object.(metav1.Object); ok {
		pod.Namespace, pod.Name, pod.ResourceVersion = object.GetNamespace(), object.GetName(), object.GetResourceVersion()
	}
	return pod
}

// sendsBookmarksOfPods makes each event a bookmark of a Pod that ends the initial events: without the object.
func sendsBookmarksOfPods(w *World, t Target) func() {
	remove := w.events(func(request apiserver.Request, e watch.Event) []watch.Event {
		if !t.Has(request) || e.Type == watch.Error {
			return []watch.Event{e}
		}
		w.reached()
		pod := podLike(e.Object)
		pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		return []watch.Event{{Type: watch.Bookmark, Object: pod}}
	})
	w.closeStreams(t)
	return remove
}

// listsNoPods answers a list with an empty PodList.
func listsNoPods(w *World, t Target) func() {
	remove := w.answers(func(request apiserver.Request, object runtime.Object) runtime.Object {
		if !t.Has(request) || !meta.IsListType(object) {
			return object
		}
		pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		pods.ResourceVersion = object.(metav1.ListInterface).GetResourceVersion()
		w.reached()
		return pods
	})
	w.closeStreams(t)
	return remove
}

// changeBookmarks withholds those that end the initial events. One of other-type-in-bookmarks stands for an event,
// which is not lost.
func (w *World) changeBookmarks(t Target) (remove func()) {
	return w.events(func(request apiserver.Request, e watch.Event) []watch.Event {
		object, ok := e.Object.(metav1.Object)
		if _, other := e.Object.(*corev1.Pod); other || !ok || !t.Has(request) || object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "" {
			return []watch.Event{e}
		}
		w.reached()
		return nil
	})
}

// repeatsOldEvents sends, behind each event, the one before it of the same object.
func repeatsOldEvents(w *World, t Target) func() {
	type past struct {
		event    watch.Event
		restores int64
	}
	last := map[*Object]past{}
	return w.changeEvents(t, func(request apiserver.Request, e watch.Event) []watch.Event {
		w.mu.Lock()
		defer w.mu.Unlock()
		object := w.object(request)
		before, restores := last[object], w.restores.Load()
		last[object] = past{e, restores}
		if before.event.Object == nil || before.restores != restores { // a version of before a restore may be a future one
			return []watch.Event{e}
		}
		return []watch.Event{e, {Type: before.event.Type, Object: before.event.Object.DeepCopyObject()}}
	})
}

// mutates changes the objects of events and lists.
func mutates(mutate func(metav1.Object)) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		inLists := w.mutateLists(t, func(items []runtime.Object) []runtime.Object {
			for _, item := range items {
				mutate(item.(metav1.Object))
			}
			return items
		})
		inStreams := w.reopensEvents(t, func(_ apiserver.Request, e watch.Event) []watch.Event {
			mutate(e.Object.(metav1.Object))
			return []watch.Event{e}
		})
		return func() {
			inLists()
			inStreams()
		}
	}
}

// mutateLists changes the items of lists.
func (w *World) mutateLists(t Target, mutate func([]runtime.Object) []runtime.Object) (remove func()) {
	inLists := w.answers(func(request apiserver.Request, object runtime.Object) runtime.Object {
		if !t.Has(request) || !meta.IsListType(object) {
			return object
		}
		items, err := meta.ExtractList(object)
		w.must(err)
		w.reached()
		w.must(meta.SetList(object, mutate(items)))
		return object
	})
	w.closeStreams(t)
	return inLists
}
