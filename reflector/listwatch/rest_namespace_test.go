// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/reflector/internal/failure"
)

var initialEvents = metav1.ListOptions{
	SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
}

// shareNamespace makes w.source that of the wanted names in the namespace. It counts the objects that are made to be
// decoded.
func (w *wire) shareNamespace(wanted func(string) bool) (made *atomic.Int32) {
	made = new(atomic.Int32)
	resource := secretsOf(w.client.CoreV1().RESTClient())
	resource.NewObject = func() runtime.Object { made.Add(1); return &corev1.Secret{} }
	w.source = FromRESTNamespace(resource, "default", wanted)
	made.Store(0)
	return made
}

func (w *wire) remove(name string) {
	w.t.Helper()
	if err := w.client.CoreV1().Secrets("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// A watch of a namespace brings the events of wanted names, and every bookmark. Other objects are not decoded.
func TestRESTNamespaceWatch(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		made := w.shareNamespace(func(name string) bool { return name == "tls" })
		w.write("other", "x")
		w.write("tls", "one")
		stream := w.watch(initialEvents)
		if got := w.next(stream, watch.Added).(*corev1.Secret); string(got.Data["password"]) != "one" {
			t.Errorf("added: got %q, want one", got.Data)
		}
		if mark := w.next(stream, watch.Bookmark).(*corev1.Secret); mark.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("bookmark: got %v, want it to end the initial events", mark.Annotations)
		}
		w.write("other", "y")
		w.write("tls", "two")
		w.remove("other")
		w.write("new", "z")
		w.remove("tls")
		if got := w.next(stream, watch.Modified).(*corev1.Secret); string(got.Data["password"]) != "two" {
			t.Errorf("modified: got %q, want two", got.Data)
		}
		if got := w.next(stream, watch.Deleted).(*corev1.Secret); got.Name != "tls" {
			t.Errorf("deleted: got %q, want tls", got.Name)
		}
		w.write("other", "z")
		if got := w.next(stream, watch.Bookmark).(*corev1.Secret); got.ResourceVersion != w.server.ResourceVersion() {
			t.Errorf("bookmark a minute later: got version %q, want %q", got.ResourceVersion, w.server.ResourceVersion())
		}
		// One to see the encoding, and one for each event that Next returned.
		if got := made.Load(); got != 1+5 {
			t.Errorf("objects made: got %d, want 6", got)
		}
	})
}

// A name may become wanted, or unwanted, while the stream is open.
func TestRESTNamespaceWantedChanges(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		var name atomic.Value
		name.Store("")
		w.shareNamespace(func(n string) bool { return n == name.Load() })
		w.write("one", "")
		w.write("two", "")
		stream := w.watch(initialEvents)
		w.next(stream, watch.Bookmark)
		for _, wanted := range []string{"one", "two", "one"} {
			name.Store(wanted)
			w.write("one", wanted)
			w.write("two", wanted)
			if got := w.next(stream, watch.Modified).(*corev1.Secret); got.Name != wanted || string(got.Data["password"]) != wanted {
				t.Errorf("modified: got %s with %q, want %s", got.Name, got.Data, wanted)
			}
			w.next(stream, watch.Bookmark) // the stream has been read up to here
		}
	})
}

// The server's error in a stream is returned.
func TestRESTNamespaceErrorInStream(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		w.shareNamespace(func(string) bool { return false })
		w.write("tls", "one")
		w.write("tls", "two")
		w.server.Compact()
		stream := w.watch(metav1.ListOptions{ResourceVersion: "1"})
		if status := w.next(stream, watch.Error).(*metav1.Status); status.Code != 410 {
			t.Errorf("error: got %v, want 410", status)
		}
	})
}

// A list is read in pages of one version. It holds the wanted objects only.
func TestRESTNamespaceList(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		for i := range 2*pageSize + 3 {
			w.write(fmt.Sprintf("s%05d", i), canary)
		}
		wanted := []string{"s00000", "s00499", "s00500", "s01002"}
		w.shareNamespace(func(name string) bool { return slices.Contains(wanted, name) })
		for _, version := range []string{"", "5"} {
			before := len(w.server.Requests())
			list, err := w.source.List(t.Context(), metav1.ListOptions{ResourceVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.(*corev1.SecretList).Items {
				got = append(got, item.Name)
			}
			if header := list.(*corev1.SecretList).ListMeta; !slices.Equal(got, wanted) || header.ResourceVersion != w.server.ResourceVersion() || header.Continue != "" {
				t.Errorf("list: got %q with %+v, want %q at %s", got, header, wanted, w.server.ResourceVersion())
			}
			match := map[string]string{"": "", "5": "NotOlderThan"}[version]
			for i, request := range w.server.Requests()[before:] {
				query := request.Query
				if query.Get("limit") != "500" || query.Get("fieldSelector") != "" || query.Has("continue") != (i > 0) {
					t.Errorf("request %d: got %v", i, query)
				}
				if i == 0 && (query.Get("resourceVersion") != version || query.Get("resourceVersionMatch") != match) {
					t.Errorf("first request: got %v, want version %q and %q", query, version, match)
				}
			}
			if got := len(w.server.Requests()) - before; got != 3 {
				t.Errorf("requests: got %d, want 3", got)
			}
		}
	})
}

// If the version of the first page has expired, the list fails: the rest would be of another version.
func TestRESTNamespaceListExpires(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		for i := range pageSize + 1 {
			w.write(fmt.Sprintf("s%05d", i), canary)
		}
		w.shareNamespace(func(name string) bool {
			if name == "s00000" { // between the first page and the second
				w.write("s00001", "new")
				w.server.Compact()
			}
			return true
		})
		_, err := w.source.List(t.Context(), metav1.ListOptions{})
		if failure.Of(err) != failure.Expired {
			t.Errorf("list: got %v, want it Expired", err)
		}
		checkSecrecy(t, err)
	})
}
