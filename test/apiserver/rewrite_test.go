// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// typed returns a Secret as a server sends it.
func typed(secret *corev1.Secret) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	return secret
}

// withValue reports whether an event is an update to a value.
func withValue(e watch.Event, value string) bool {
	secret, ok := e.Object.(*corev1.Secret)
	return ok && e.Type == watch.Modified && string(secret.Data["key"]) == value
}

// TestRewriteEvents checks what clients in JSON and protobuf get of the events that a Rewriter drops, repeats, reorders
// and replaces.
func TestRewriteEvents(t *testing.T) {
	var held []watch.Event
	for name, test := range map[string]struct {
		rewrite func(e watch.Event) []watch.Event // nil: none
		want    []string                          // type, name and value of the events
		ends    bool
	}{
		"none": {nil, []string{"ADDED a 1", "BOOKMARK", "MODIFIED a 2", "MODIFIED a 3", "DELETED a 3"}, false},
		"drop": {func(e watch.Event) []watch.Event {
			if withValue(e, "2") {
				return nil
			}
			return []watch.Event{e}
		}, []string{"ADDED a 1", "BOOKMARK", "MODIFIED a 3", "DELETED a 3"}, false},
		"repeat": {func(e watch.Event) []watch.Event {
			if e.Type == watch.Deleted {
				return []watch.Event{e, e}
			}
			return []watch.Event{e}
		}, []string{"ADDED a 1", "BOOKMARK", "MODIFIED a 2", "MODIFIED a 3", "DELETED a 3", "DELETED a 3"}, false},
		"reorder": {func(e watch.Event) []watch.Event {
			if withValue(e, "2") {
				held = []watch.Event{e}
				return nil
			}
			out := append([]watch.Event{e}, held...)
			held = nil
			return out
		}, []string{"ADDED a 1", "BOOKMARK", "MODIFIED a 3", "MODIFIED a 2", "DELETED a 3"}, false},
		"replace": {func(e watch.Event) []watch.Event {
			if e.Type == watch.Modified {
				e.Object.(*corev1.Secret).Name = "other"
			}
			return []watch.Event{e}
		}, []string{"ADDED a 1", "BOOKMARK", "MODIFIED other 2", "MODIFIED other 3", "DELETED a 3"}, false},
		"an unknown type": {func(e watch.Event) []watch.Event {
			if e.Type == watch.Modified {
				e.Type = "UNKNOWN"
			}
			return []watch.Event{e}
		}, []string{"ADDED a 1", "BOOKMARK", "ERROR 500"}, true}, // client-go's decoder refuses it
		"another type": {func(e watch.Event) []watch.Event {
			if e.Type == watch.Modified {
				e.Object = &corev1.ConfigMap{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "map"},
				}
			}
			return []watch.Event{e}
		}, []string{"ADDED a 1", "BOOKMARK", "MODIFIED ConfigMap map", "MODIFIED ConfigMap map", "DELETED a 3"}, false},
		"an error ends the watch": {func(e watch.Event) []watch.Event {
			if e.Type == watch.Modified {
				e = watch.Event{Type: watch.Error, Object: statusOf(apierrors.NewInternalError(errors.New("no leader")))}
			}
			return []watch.Event{e}
		}, []string{"ADDED a 1", "BOOKMARK", "ERROR 500"}, true},
	} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			t.Run(name+"/"+contentType, inBubble(func(t *testing.T) {
				f := newFixture(t, Options{InMemory: true, TLS: true})
				config := f.Config()
				config.ContentType = contentType
				client := newClientFor(t, config)
				secret := newSecret("a")
				secret.Data["key"] = []byte("1")
				first := f.createSecret(secret)
				if test.rewrite != nil {
					f.Rewrite(Rewriter{Event: func(_ context.Context, _ Request, e watch.Event) []watch.Event { return test.rewrite(e) }})
				}
				w, err := client.CoreV1().Secrets("default").Watch(t.Context(), named("a", watchList()))
				check(t, err)
				defer w.Stop()
				f.updateSecret(f.updateSecret(first, "2"), "3")
				f.deleteSecret("a")
				synctest.Wait()
				for _, want := range test.want {
					if got := textOf(<-w.ResultChan()); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				}
				synctest.Wait()
				select {
				case event, open := <-w.ResultChan():
					if open || !test.ends {
						t.Errorf("got %s, open %v, want no event", textOf(event), open)
					}
				default:
					if test.ends {
						t.Error("got an open watch, want its end")
					}
				}
			}))
		}
	}
}

// textOf returns the type, name and value of an event.
func textOf(e watch.Event) string {
	switch object := e.Object.(type) {
	case *corev1.Secret:
		if e.Type == watch.Bookmark {
			return string(e.Type)
		}
		return fmt.Sprintf("%s %s %s", e.Type, object.Name, object.Data["key"])
	case *corev1.ConfigMap:
		return fmt.Sprintf("%s ConfigMap %s", e.Type, object.Name)
	case *metav1.Status:
		return fmt.Sprintf("%s %d", e.Type, object.Code)
	default:
		return fmt.Sprintf("%s %T", e.Type, e.Object)
	}
}

// TestRewriteDelays checks that the client has the events before one that a Rewriter holds back, and gets that one and
// those behind it later.
func TestRewriteDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{InMemory: true, TLS: true})
		f.createSecret(newSecret("a"))
		f.Rewrite(Rewriter{Event: func(ctx context.Context, _ Request, e watch.Event) []watch.Event {
			if e.Type == watch.Bookmark {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
			}
			return []watch.Event{e}
		}})
		w := f.watchSecrets(named("a", watchList()))
		began := time.Now()
		expect(t, w, watch.Added)
		if took := time.Since(began); took != 0 {
			t.Errorf("got the first event after %v, want at once", took)
		}
		expect(t, w, watch.Bookmark)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("got the bookmark after %v, want a minute", took)
		}
	})
}

// TestRewriteAppliesToOpenWatches checks that a Rewriter changes the events of watches that were open before, and only
// while it is set. The objects in the store stay as they are.
func TestRewriteAppliesToOpenWatches(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			secret := f.createSecret(newSecret("a"))
			w := f.watchSecrets(named("a", metav1.ListOptions{ResourceVersion: secret.ResourceVersion}))
			f.Rewrite(Rewriter{Event: func(_ context.Context, _ Request, e watch.Event) []watch.Event {
				e.Object.(*corev1.Secret).Data["key"] = []byte("changed")
				return []watch.Event{e}
			}})
			secret = f.updateSecret(secret, "1")
			if got := textOf(<-w.ResultChan()); got != "MODIFIED a changed" {
				t.Errorf("got %s, want the event of the Rewriter", got)
			}
			f.Rewrite(Rewriter{})
			f.updateSecret(secret, "2")
			if got := textOf(<-w.ResultChan()); got != "MODIFIED a 2" {
				t.Errorf("got %s, want the event of the server", got)
			}
		})
	}
}

// TestRewriteObjects checks that a Rewriter changes objects, lists and errors, and not the store.
func TestRewriteObjects(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			f.createSecret(newSecret("a"))
			var kinds []string
			f.Rewrite(Rewriter{Object: func(_ context.Context, r Request, obj runtime.Object) runtime.Object {
				kinds = append(kinds, fmt.Sprintf("%s %T", r.Verb, obj))
				switch obj := obj.(type) {
				case *corev1.Secret:
					obj.UID = "other"
					return obj
				case *corev1.SecretList:
					obj.ResourceVersion = "soon"
					obj.Items = append(obj.Items, *newSecret("b"))
					return obj
				}
				return nil
			}})
			secrets := f.client.CoreV1().Secrets("default")
			if got, err := secrets.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || got.UID != "other" {
				t.Errorf("got %v, %v, want another UID", got, err)
			}
			list := f.listSecrets(named("a", metav1.ListOptions{}))
			if len(list.Items) != 2 || list.ResourceVersion != "soon" || list.Items[0].UID == "other" {
				t.Errorf("got %d items at %q, want two at another version", len(list.Items), list.ResourceVersion)
			}
			if _, err := secrets.Get(t.Context(), "absent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("got %v, want NotFound", err)
			}
			if want := []string{"get *v1.Secret", "list *v1.SecretList", "get *v1.Status"}; !slices.Equal(kinds, want) {
				t.Errorf("got calls for %q, want %q", kinds, want)
			}
			f.Rewrite(Rewriter{})
			if list := f.listSecrets(metav1.ListOptions{}); len(list.Items) != 1 || list.Items[0].UID == "other" {
				t.Errorf("without a Rewriter: got %v, want the Secret as it is", list.Items)
			}
		})
	}
}

// TestRewriteErrorsInStream checks that a Rewriter can change the error of a watch that cannot begin.
func TestRewriteErrorsInStream(t *testing.T) {
	f := newFixture(t, Options{})
	f.Rewrite(Rewriter{Event: func(_ context.Context, _ Request, e watch.Event) []watch.Event {
		e.Object.(*metav1.Status).Details = nil // the form of old servers
		return []watch.Event{e}
	}})
	options := watchList()
	options.ResourceVersion = "99999999"
	status := expect(t, f.watchSecrets(options), watch.Error).Object.(*metav1.Status)
	if status.Code != 504 || status.Details != nil {
		t.Errorf("got %+v, want 504 without details", status)
	}
}

// TestSend checks that events of a test arrive on the matching watches in order, whatever their versions, and that an
// ERROR event ends them.
func TestSend(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			old := f.createSecret(newSecret("a"))
			a, b := f.watchSecrets(named("a", watchList())), f.watchSecrets(named("b", watchList()))
			f.updateSecret(old, "new")
			isA := func(r Request) bool { return r.Name == "a" }
			if got := f.Send(isA, watch.Event{Type: watch.Modified, Object: typed(old)}); got != 1 {
				t.Errorf("got %d watches, want 1", got)
			}
			for _, want := range []string{"ADDED a value of a", "BOOKMARK", "MODIFIED a new", "MODIFIED a value of a"} {
				if got := textOf(<-a.ResultChan()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			expect(t, b, watch.Bookmark)
			gone := watch.Event{Type: watch.Error, Object: statusOf(apierrors.NewResourceExpired("old"))}
			if got := f.Send(nil, gone, gone); got != 2 {
				t.Errorf("got %d watches, want 2", got)
			}
			for _, w := range []watch.Interface{a, b} {
				if got := expect(t, w, watch.Error).Object.(*metav1.Status); got.Code != 410 {
					t.Errorf("got %+v, want 410", got)
				}
				if event, open := <-w.ResultChan(); open {
					t.Errorf("got %s, want the end of the watch", textOf(event))
				}
			}
		})
	}
}
