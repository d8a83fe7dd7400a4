// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// A kind whose handlers can get no events, because no Get has asked for an object, is one line of the log, and a note
// on the debug page. A Get in any representation, or the end of the informer, makes it none; a later Get ends the note.
func TestSilentHandlersAreLogged(t *testing.T) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	for name, test := range map[string]struct {
		do   func(*rig)
		want []string
	}{
		"no Get":           {func(*rig) {}, []string{`"kind"="Secret"`}},
		"a Get":            {func(r *rig) { r.wantValue("one", "1") }, nil},
		"RemoveInformer":   {func(r *rig) { _ = r.cache.RemoveInformer(r.t.Context(), &corev1.Secret{}) }, nil},
		"events of labels": {func(r *rig) { r.record(metadata); r.wantValue("one", "1") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var lines events
			rootLines.Store(new(func(_, args string) {
				if strings.Contains(args, "Handlers get no events") {
					_, kind, _ := strings.Cut(args, "CacheOptions.For\" ")
					lines.add("%s", kind)
				}
			}))
			defer rootLines.Store(nil)
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				r.create("one", "1")
				r.record(&corev1.Secret{})
				test.do(r)
				store, err := r.cache.(*controllerruntime.Cache).Store(&corev1.Secret{})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute - time.Second)
				if notes := store.Notes(); len(notes) > 0 {
					t.Errorf("before a minute: got the notes %q, want none", notes)
				}
				time.Sleep(time.Hour)
				lines.want(t, "after an hour", test.want...)
				if notes := store.Notes(); len(notes) != len(test.want) {
					t.Errorf("after an hour: got the notes %q, want %d", notes, len(test.want))
				}
				r.wantValue("one", "1")
				if notes := store.Notes(); len(notes) > 0 {
					t.Errorf("after a Get: got the notes %q, want none", notes)
				}
			})
		})
	}
}
