// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/states"
)

// Checks of what the server answers.

// versionOf returns the version of a list. No request asks for pages: a list that is
// one of several pages is not the state.
func versionOf(list runtime.Object) (string, error) {
	header, err := meta.ListAccessor(list)
	if err != nil || !meta.IsListType(list) {
		return "", fmt.Errorf("%w: a %T where a list belongs", cache.ErrMalformed, list)
	}
	if header.GetContinue() != "" {
		return "", fmt.Errorf("%w: one page of a list, though the whole list was requested", cache.ErrMalformed)
	}
	return header.GetResourceVersion(), states.CheckVersion(header.GetResourceVersion())
}

// itemsOf returns the objects in a list.
func itemsOf(list runtime.Object) ([]any, error) {
	// An item that shared the memory of the list would keep all of it.
	objects, err := meta.ExtractListWithAlloc(list)
	if err != nil { // its text prints the list
		return nil, fmt.Errorf("%w: a %T with items that are no objects", cache.ErrMalformed, list)
	}
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object)
	}
	return items, nil
}

// checkEvent returns an error if an event is not what a watch may deliver, or is the
// error that the server sent. Whether an object belongs in the store is another
// question.
func checkEvent(event watch.Event) error {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		if _, err := meta.Accessor(event.Object); err != nil {
			return fmt.Errorf("%w: an event that holds a %T", cache.ErrMalformed, event.Object)
		}
		return nil
	case watch.Bookmark:
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return fmt.Errorf("%w: a bookmark that holds a %T", cache.ErrMalformed, event.Object)
		}
		return states.CheckVersion(object.GetResourceVersion())
	case watch.Error:
		if status, ok := event.Object.(*metav1.Status); ok {
			return redact.Error(apierrors.FromObject(status))
		}
		return fmt.Errorf("%w: an error event that holds a %T", cache.ErrMalformed, event.Object)
	}
	// Without the type: where frames are mixed up, it may be a part of an object.
	return fmt.Errorf("%w: an event of an unknown type", cache.ErrMalformed)
}

// endsInitialEvents reports whether an event is the bookmark that ends the initial
// events of a WatchList (KEP-3157).
func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// initialState collects the initial events of a WatchList. The server may mix in
// changes (KEP-3157).
type initialState map[types.NamespacedName]initialEvent

// initialEvent is the newest event of an object.
type initialEvent struct {
	object  any // nil if it was deleted
	version string
}

// add adds an event that [checkEvent] has passed. It reports whether the state is
// complete, and at which version.
func (s initialState) add(event watch.Event) (version string, complete bool, err error) {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return "", false, err
	}
	if event.Type == watch.Bookmark {
		return object.GetResourceVersion(), endsInitialEvents(event), nil
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	next := initialEvent{version: object.GetResourceVersion()}
	if event.Type != watch.Deleted {
		next.object = event.Object
	}
	if before, ok := s[key]; ok {
		order, err := states.CompareVersions(next.version, before.version)
		if err == nil && (order < 0 || order == 0 && next.object != nil) {
			return "", false, nil // repeated or late; some servers send a deletion with the last version of the object
		}
	}
	s[key] = next
	return "", false, nil
}

// items returns the objects that exist.
func (s initialState) items() []any {
	items := make([]any, 0, len(s))
	for _, event := range s {
		if event.object != nil {
			items = append(items, event.object)
		}
	}
	return items
}
