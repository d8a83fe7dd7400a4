// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// A stream of a large object that has ended is resumed without the object: a list of metadata proves that nothing has
// changed, and a plain watch follows. Whatever else happened meanwhile, the newest state arrives.
const (
	asMetadata = "metadata"
	watchList  = "WatchList"
	plainWatch = "watch"
)

// largeRig is a store with a reference to one large Secret.
type largeRig struct{ *parkedRig }

func inLargeBubble(t *testing.T, f func(*testing.T, *largeRig)) {
	t.Helper()
	for name, change := range map[string]func(*parkedRig, *rest.Config){
		"plain": nil, "transformed": func(r *parkedRig, _ *rest.Config) {
			r.transform = func(s *corev1.Secret) *corev1.Secret { s.Labels = nil; return s }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inParkedBubble(t, 1, apiserver.Options{}, change, func(t *testing.T, p *parkedRig) {
				r := &largeRig{p}
				r.reference()
				r.write("first")
				r.wantAll("before the break", "first", time.Minute)
				f(t, r)
			})
		})
	}
}

// write gives the Secret a value and a second one of 100 kB.
func (r *largeRig) write(value string) {
	r.t.Helper()
	secrets := r.client.CoreV1().Secrets(namespace)
	secret := &corev1.Secret{
		// kube-apiserver sets the managedFields.
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.names[0], ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`), Time: &metav1.Time{Time: time.Now()},
		}}},
		Data: map[string][]byte{"password": []byte(value), "large": bytes.Repeat([]byte("x"), 100_000)},
	}
	_, err := secrets.Update(r.t.Context(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(r.t.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *largeRig) remove() {
	r.t.Helper()
	if err := r.client.CoreV1().Secrets(namespace).Delete(r.t.Context(), r.names[0], metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// breaks breaks the stream, and returns the requests that have opened the next one after what happened meanwhile.
func (r *largeRig) breaks(meanwhile func(*largeRig)) (requests []apiserver.Request) {
	r.t.Helper()
	before := len(r.server.Requests())
	r.network.OnDial(func(int) network.Dial { return network.Refuse })
	r.cut()
	synctest.Wait()
	if meanwhile != nil {
		meanwhile(r)
	}
	time.Sleep(time.Second)
	r.network.OnDial(nil)
	time.Sleep(time.Minute)
	synctest.Wait()
	for _, request := range r.server.Requests()[before:] {
		if request.Verb == "list" || request.Verb == "watch" {
			requests = append(requests, request)
		}
	}
	return requests
}

func kindsOf(requests []apiserver.Request) (kinds []string) {
	for _, request := range requests {
		switch {
		case strings.Contains(request.Accept, "PartialObjectMetadataList"):
			kinds = append(kinds, asMetadata)
		case request.Query.Has("sendInitialEvents"):
			kinds = append(kinds, watchList)
		case request.Verb == "watch":
			kinds = append(kinds, plainWatch)
		default:
			kinds = append(kinds, request.Verb)
		}
	}
	return kinds
}

func TestLargeObjectIsResumed(t *testing.T) {
	tests := map[string]struct {
		meanwhile func(*largeRig)
		requests  []string // nil: any
		value     string   // empty: it is absent
	}{
		"unchanged":           {nil, []string{asMetadata, plainWatch}, "first"},
		"others have changed": {func(r *largeRig) { r.create("other") }, []string{asMetadata, plainWatch}, "first"},
		"compacted":           {func(r *largeRig) { r.create("other"); r.server.Compact() }, []string{asMetadata, plainWatch}, "first"},
		"changed":             {func(r *largeRig) { r.write("second") }, []string{asMetadata, watchList}, "second"},
		"deleted":             {func(r *largeRig) { r.remove() }, []string{asMetadata, watchList}, ""},
		"recreated":           {func(r *largeRig) { r.remove(); r.write("second") }, []string{asMetadata, watchList}, "second"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inLargeBubble(t, func(t *testing.T, r *largeRig) {
				before, _ := r.TryGet(namespace, r.names[0])
				if got := kindsOf(r.breaks(test.meanwhile)); !slices.Equal(got, test.requests) {
					t.Errorf("requests: got %q, want %q", got, test.requests)
				}
				r.wantState(test.value)
				if after, _ := r.TryGet(namespace, r.names[0]); test.value == "first" && after != before {
					t.Error("got another pointer for the same state")
				}
				r.write("last")
				r.wantAll("on the new stream", "last", 5*time.Second)
			})
		})
	}
}

// wantState checks the value of the Secret in memory; an empty one means that it is absent.
func (r *largeRig) wantState(value string) {
	r.t.Helper()
	if value != "" {
		r.wantAll("after the break", value, time.Second)
	} else if _, err := r.TryGet(namespace, r.names[0]); !apierrors.IsNotFound(err) {
		r.t.Errorf("after the break: got error %v, want NotFound", err)
	}
}

// etcd is restored while the stream is broken. The versions may have passed those that were seen, and the object may
// have other content under the same version: then the time of the write differs.
func TestLargeObjectAfterARestore(t *testing.T) {
	tests := map[string]struct {
		write  bool // the object, which gets the version of the write that was lost
		others int  // writes of others
		value  string
	}{
		"not overtaken":                        {false, 0, "first"},
		"overtaken by others":                  {false, 5, "first"},
		"other content under the same version": {true, 5, "kept"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inLargeBubble(t, func(t *testing.T, r *largeRig) {
				state := r.server.Snapshot()
				time.Sleep(2 * time.Second)
				r.write("lost")
				r.wantAll("before the restore", "lost", time.Minute)
				requests := r.breaks(func(r *largeRig) {
					r.server.Restore(state)
					time.Sleep(2 * time.Second)
					if test.write {
						r.write(test.value)
					}
					for i := range test.others {
						r.create("other-" + string(rune('a'+i)))
					}
				})
				r.wantState(test.value)
				if got := kindsOf(requests); slices.Contains(got, plainWatch) {
					t.Errorf("requests: got %q, want the state", got)
				}
				r.write("last")
				r.wantAll("on the new stream", "last", 5*time.Second)
			})
		})
	}
}

// The same with a stream that a server has kept open over the restore, and that was compared with a list before it
// broke: nothing has delivered what the list has shown.
func TestLargeObjectAfterAVerification(t *testing.T) {
	inParkedBubble(t, 1, apiserver.Options{BookmarkInterval: time.Hour}, nil, func(t *testing.T, p *parkedRig) {
		r := &largeRig{p}
		r.reference()
		r.write("first")
		state := r.server.Snapshot()
		time.Sleep(2 * time.Second)
		r.write("lost")
		r.wantAll("before the restore", "lost", time.Minute)
		r.server.RestoreKeeping(state, func(apiserver.Request) bool { return true })
		time.Sleep(2 * time.Second)
		r.write("kept")
		time.Sleep(3 * time.Minute)
		r.breaks(nil)
		r.wantState("kept")
	})
}

// A server or a proxy that has no answer of metadata is asked once in an hour. Then the object is read.
func TestLargeObjectWithoutMetadata(t *testing.T) {
	tests := map[string]struct {
		answer     func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc)
		remembered bool
	}{
		"406": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			w.WriteHeader(http.StatusNotAcceptable)
		}, true},
		"whole objects": {func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
			r.Header.Set("Accept", "application/json")
			next(w, r)
		}, true},
		"HTML": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			_, _ = w.Write([]byte("<html></html>"))
		}, true},
		"403": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { w.WriteHeader(http.StatusForbidden) }, false},
		"502": {func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { w.WriteHeader(http.StatusBadGateway) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inLargeBubble(t, func(t *testing.T, r *largeRig) {
				r.server.Wrap(func(w http.ResponseWriter, request *http.Request, _ apiserver.Request, next http.HandlerFunc) {
					if strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadataList") {
						test.answer(w, request, next)
						return
					}
					next(w, request)
				})
				again := []string{watchList}
				if !test.remembered {
					again = []string{asMetadata, watchList}
				}
				for i, want := range [][]string{{asMetadata, watchList}, again} {
					if got := kindsOf(r.breaks(nil)); !slices.Equal(got, want) {
						t.Errorf("break %d: requests: got %q, want %q", i+1, got, want)
					}
					r.wantState("first")
					time.Sleep(90 * time.Second) // a failure that is no answer of the resource is a lesson for a minute
				}
				r.server.Wrap(nil)
				time.Sleep(time.Hour)
				if got, want := kindsOf(r.breaks(nil)), []string{asMetadata, plainWatch}; !slices.Equal(got, want) {
					t.Errorf("an hour later: requests: got %q, want %q", got, want)
				}
			})
		})
	}
}

// A new owner that came before the break needs a consistent read, and the list of metadata is one.
func TestLargeObjectForANewOwner(t *testing.T) {
	inLargeBubble(t, func(t *testing.T, r *largeRig) {
		requests := r.breaks(func(r *largeRig) { r.AddReference(namespace, r.names[0], "another") })
		if got, want := kindsOf(requests), []string{asMetadata, plainWatch}; !slices.Equal(got, want) {
			t.Fatalf("requests: got %q, want %q", got, want)
		}
		if got := requests[0].Query.Get("resourceVersion"); got != "" {
			t.Errorf("the list was made at version %s, want a consistent one", got)
		}
		r.wantState("first")
	})
}

// The server lags: its list of metadata shows what is held, and the change comes when it catches up.
func TestLargeObjectOnALaggingServer(t *testing.T) {
	inLargeBubble(t, func(t *testing.T, r *largeRig) {
		r.breaks(func(r *largeRig) {
			r.server.Lag(3 * time.Second)
			r.write("second")
		})
		r.wantState("first")
		r.server.CatchUp()
		r.wantAll("when the server has caught up", "second", 5*time.Second)
	})
}

// The stream of a small object begins with the object: a second request would cost more.
func TestSmallObjectIsReadAgain(t *testing.T) {
	inParkedBubble(t, 1, apiserver.Options{}, nil, func(t *testing.T, p *parkedRig) {
		r := &largeRig{p}
		r.reference()
		if got, want := kindsOf(r.breaks(nil)), []string{watchList}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want %q", got, want)
		}
	})
}
