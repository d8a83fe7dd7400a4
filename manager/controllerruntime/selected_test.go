// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// selectedSecrets are the options of a cache of which the stock cache holds the Secrets that are selected.
var selectedSecrets = controllerruntime.CacheOptions{Selected: []client.Object{&corev1.Secret{}}}

// selections select "one", which has the label app=web, and not "two", which has none and is in another namespace.
var selections = map[string]crcache.Options{
	"label":     {ByObject: ofSecrets(crcache.ByObject{Label: web})},
	"field":     {ByObject: ofSecrets(crcache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", "one")})},
	"namespace": {ByObject: ofSecrets(crcache.ByObject{Namespaces: map[string]crcache.Config{namespace: {}}})},
}

var keyOfTwo = client.ObjectKey{Namespace: "other", Name: "two"}

// createTwo creates a Secret that no selection selects.
func (r *rig) createTwo() {
	r.t.Helper()
	two := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: keyOfTwo.Namespace, Name: keyOfTwo.Name}, Data: map[string][]byte{"value": []byte("2")}}
	if _, err := r.client.CoreV1().Secrets(two.Namespace).Create(r.t.Context(), two, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// setValue updates a Secret with the labels that it has.
func (r *rig) setValue(key client.ObjectKey, value string) {
	r.t.Helper()
	secrets := r.client.CoreV1().Secrets(key.Namespace)
	secret, err := secrets.Get(r.t.Context(), key.Name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	secret.Data = map[string][]byte{"value": []byte(value)}
	if _, err := secrets.Update(r.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// Of a kind of Selected, List and an index serve what is selected, with no stream by name. Any other object is got by
// reference, in any namespace, and its requests have the name alone. Handlers have the events of what is selected.
func TestSelected(t *testing.T) {
	for name, stock := range selections {
		t.Run(name, func(t *testing.T) {
			inBubble(t, selectedSecrets, stock, func(t *testing.T, r *rig) {
				r.create("one", "1")
				r.createTwo()
				err := r.cache.IndexField(t.Context(), &corev1.Secret{}, "value", func(object client.Object) []string {
					return []string{string(object.(*corev1.Secret).Data["value"])}
				})
				if err != nil {
					t.Fatal(err)
				}
				seen := r.record(&corev1.Secret{})
				seen.want(t, "at first", "add one=1")
				r.wantValue("one", "1")
				for _, request := range secretRequests(r.server) {
					if request != "list" && request != "watch" && name != "field" {
						t.Errorf("a Get of a selected object: got request %q, want those of the stock cache alone", request)
					}
				}
				two := &corev1.Secret{}
				if err := r.cache.Get(t.Context(), keyOfTwo, two); err != nil || string(two.Data["value"]) != "2" {
					t.Errorf("an object that is not selected: got %q and %v, want 2", two.Data["value"], err)
				}
				r.setValue(keyOfOne, "3")
				r.setValue(keyOfTwo, "4")
				seen.want(t, "after updates", "update one=1 to one=3")
				if err := r.cache.Get(t.Context(), keyOfTwo, two); err != nil || string(two.Data["value"]) != "4" {
					t.Errorf("the other object after its update: got %q and %v, want 4", two.Data["value"], err)
				}
				r.wantListed("3", "one")
				r.wantListed("4")
				r.wantListed("", "one")
				r.remove("one")
				seen.want(t, "after a deletion", "delete one=3")
				if _, err := r.get("one"); !apierrors.IsNotFound(err) {
					t.Errorf("a deleted object: got %v, want NotFound", err)
				}
			})
		})
	}
}

// wantListed checks the names of the Secrets of a List with a value of the index, or of all.
func (r *rig) wantListed(value string, want ...string) {
	r.t.Helper()
	var opts []client.ListOption
	if value != "" {
		opts = append(opts, client.MatchingFields{"value": value})
	}
	list := &corev1.SecretList{}
	if err := r.cache.List(r.t.Context(), list, opts...); err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if strings.Join(names, ",") != strings.Join(want, ",") {
		r.t.Errorf("List of %q: got %q, want %q", value, names, want)
	}
}

// An object that loses its label goes on by reference, and one that gets it goes on in the set, and loses its stream
// after IdleTimeout. No Get returns an older state than the one before.
func TestSelectedChangesOfTheLabel(t *testing.T) {
	inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
		r.create("one", "1")
		seen := r.record(&corev1.Secret{})
		r.wantValue("one", "1")
		r.wantStreams("selected", 1)
		seen.clear()
		r.label("one", nil)
		seen.want(t, "without the label", "delete one=1")
		r.wantValue("one", "1")
		r.wantStreams("not selected", 2)
		r.setValue(keyOfOne, "2")
		r.wantValue("one", "2")
		r.label("one", map[string]string{"app": "web"})
		seen.want(t, "with the label", "add one=2")
		r.setValue(keyOfOne, "3")
		seen.want(t, "an update with the label", "update one=2 to one=3")
		r.wantValue("one", "3")
		time.Sleep(2 * time.Hour)
		r.wantStreams("selected for longer than IdleTimeout", 1)
		r.wantValue("one", "3")
	})
}

// While the set lags, a Get returns no older state than the one before, and a Get of the client that has written
// returns what it has written: an update, a deletion, and a new object of the same name.
func TestSelectedSetLags(t *testing.T) {
	inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
		r.create("one", "1")
		mute := r.muteWatches(func(request apiserver.Request) bool { return request.Name == "" })
		r.record(&corev1.Secret{})
		c := r.consistent()
		r.wantValue("one", "1")
		mute()
		for n := range 3 {
			value := fmt.Sprint("updated ", n)
			if err := c.Update(t.Context(), secretNamed("one", value)); err != nil {
				t.Fatal(err)
			}
			if got := r.value(c, "one"); got != value {
				t.Errorf("the client that has written: got %q, want %q", got, value)
			}
			r.wantValue("one", value)
			if err := c.Delete(t.Context(), secretNamed("one", "")); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if got := r.value(c, "one"); got != "absent" {
					t.Errorf("the client that has deleted: got %q, want absent", got)
				}
			}
			if _, err := r.get("one"); !apierrors.IsNotFound(err) {
				t.Errorf("the cache after that: got %v, want NotFound", err)
			}
			if err := c.Create(t.Context(), secretNamed("one", "new")); err != nil {
				t.Fatal(err)
			}
			if got := r.value(c, "one"); got != "new" {
				t.Errorf("the client that has created: got %q, want new", got)
			}
			r.wantValue("one", "new")
		}
	})
}

// A set that may not be listed delays no Get by reference.
func TestSelectedMayNotBeListed(t *testing.T) {
	inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
		r.server.Authorize(func(request apiserver.Request) bool {
			return request.Resource != "secrets" || request.Name != "" || request.Verb != "list" && request.Verb != "watch"
		})
		r.create("one", "1")
		began := time.Now()
		r.wantValue("one", "1")
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("a Get while the set is forbidden took %v", waited)
		}
	})
}

// An object of the set in another representation, and the end of the informer.
func TestSelectedRepresentationsAndRemoveInformer(t *testing.T) {
	inBubble(t, selectedSecrets, drained(selections["label"]), func(t *testing.T, r *rig) {
		r.create("one", "1")
		informer, err := r.cache.GetInformer(t.Context(), secretMetadata())
		if err != nil {
			t.Fatal(err)
		}
		var seen events
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) { seen.add("add %s", text(object)) }})
		if err != nil {
			t.Fatal(err)
		}
		seen.want(t, "metadata", "add one")
		object := secretMetadata()
		if err := r.cache.Get(t.Context(), keyOfOne, object); err != nil || object.Name != "one" {
			t.Errorf("metadata: got %q and %v", object.Name, err)
		}
		if err := r.cache.RemoveInformer(t.Context(), secretMetadata()); err != nil {
			t.Fatal(err)
		}
		r.wantStreams("after RemoveInformer", 0)
	})
}

// After RemoveInformer the set is not read again because an object is held by its name.
func TestSelectedAfterRemoveInformer(t *testing.T) {
	inBubble(t, selectedSecrets, selections["label"], func(t *testing.T, r *rig) {
		r.createTwo()
		r.record(&corev1.Secret{})
		if err := r.cache.Get(t.Context(), keyOfTwo, &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		if err := r.cache.RemoveInformer(t.Context(), &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		r.wantStreams("after RemoveInformer", 1)
		time.Sleep(2 * time.Hour)
		r.wantStreams("after IdleTimeout", 0)
	})
}

func secretMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return object
}

// With LiveList, a List of a kind of Selected reads from the server, with the selector.
func TestSelectedAndLiveList(t *testing.T) {
	options := controllerruntime.CacheOptions{Selected: selectedSecrets.Selected, LiveList: true}
	inBubble(t, options, selections["label"], func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.createTwo()
		r.record(&corev1.Secret{})
		r.server.Lag(0)
		defer r.server.CatchUp()
		r.create("three", "3")
		r.wantListed("", "one", "three")
	})
}
