// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

var key = types.NamespacedName{Namespace: "shop", Name: "tls"}

func newSlot() *cache.Slot[*corev1.Secret] {
	return cache.NewSlot[*corev1.Secret](key)
}

// secret returns the slot's object at a version, with the UID "one" or the one given.
func secret(version string, uid ...types.UID) *corev1.Secret {
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: "one", ResourceVersion: version,
	}}
	if len(uid) > 0 {
		object.UID = uid[0]
	}
	return object
}

func changed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestNewSlotIsEmpty(t *testing.T) {
	if got := newSlot().Load(); got.Synced || got.Exists || got.Object != nil {
		t.Errorf("Load of a new slot: got %+v, want the zero State", got)
	}
}

func TestSlotReplace(t *testing.T) {
	other := secret("7")
	other.Name = "other"
	tests := map[string]struct {
		items   []any
		version string
		want    cache.State[*corev1.Secret]
		refused error
	}{
		"present":             {items: []any{secret("5")}, version: "9", want: cache.State[*corev1.Secret]{Synced: true, Exists: true, ResourceVersion: "5"}},
		"absent":              {version: "9", want: cache.State[*corev1.Secret]{Synced: true, ResourceVersion: "9"}},
		"version one":         {version: "1", want: cache.State[*corev1.Secret]{Synced: true, ResourceVersion: "1"}},
		"another name":        {items: []any{other}, version: "9", refused: cache.ErrForeign},
		"two objects":         {items: []any{secret("5"), secret("6")}, version: "9", refused: cache.ErrForeign},
		"another type":        {items: []any{&corev1.ConfigMap{}}, version: "9", refused: cache.ErrForeign},
		"nil":                 {items: []any{nil}, version: "9", refused: cache.ErrForeign},
		"nil pointer":         {items: []any{(*corev1.Secret)(nil)}, version: "9", refused: cache.ErrForeign},
		"no read version":     {items: []any{secret("5")}, version: "", refused: cache.ErrMalformed},
		"read version zero":   {items: []any{secret("5")}, version: "0", refused: cache.ErrMalformed},
		"newer than its read": {items: []any{secret("10")}, version: "9", refused: cache.ErrMalformed},
		"object version":      {items: []any{secret("5x")}, version: "9", refused: cache.ErrMalformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			slot := newSlot()
			if err := slot.CheckRead(test.items, test.version); !errors.Is(err, test.refused) {
				t.Errorf("CheckRead: got %v, want %v", err, test.refused)
			}
			if err := slot.Replace(test.items, test.version); err != nil {
				t.Errorf("Replace: got error %v, want none, whatever it is given", err)
			}
			got := slot.Load()
			if got.Exists != (got.Object != nil) {
				t.Errorf("Exists is %v with object %v", got.Exists, got.Object)
			}
			got.Object = nil
			if got != test.want {
				t.Errorf("state: got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestSlotEvents(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace(nil, "4")
	_ = slot.Add(secret("5"))
	if got := slot.Load(); !got.Exists || got.ResourceVersion != "5" {
		t.Errorf("after ADDED at 5: got %+v, want it to exist at 5", got)
	}
	_ = slot.Update(secret("6"))
	if got := slot.Load(); !got.Exists || got.ResourceVersion != "6" {
		t.Errorf("after MODIFIED at 6: got %+v, want it to exist at 6", got)
	}
	_ = slot.Delete(secret("7"))
	if got := slot.Load(); !got.Synced || got.Exists || got.ResourceVersion != "7" {
		t.Errorf("after DELETED at 7: got %+v, want it gone at 7", got)
	}
	_ = slot.Add(secret("8", "two"))
	if got := slot.Load(); !got.Exists || got.Object.UID != "two" {
		t.Errorf("after recreation: got %+v, want the new UID", got)
	}
}

// An event before the first complete read is stored, but does not sync the slot.
func TestSlotEventDoesNotSync(t *testing.T) {
	slot := newSlot()
	_ = slot.Add(secret("5"))
	if got := slot.Load(); got.Synced || !got.Exists {
		t.Errorf("after an event alone: got %+v, want it to exist and not synced", got)
	}
}

func TestSlotNeverGoesBack(t *testing.T) {
	tests := map[string]func(*cache.Slot[*corev1.Secret]){
		"older update":       func(s *cache.Slot[*corev1.Secret]) { _ = s.Update(secret("8")) },
		"same version again": func(s *cache.Slot[*corev1.Secret]) { _ = s.Update(secret("10")) },
		"older delete":       func(s *cache.Slot[*corev1.Secret]) { _ = s.Delete(secret("9")) },
		"older read":         func(s *cache.Slot[*corev1.Secret]) { _ = s.Replace(nil, "9") },
		"shorter number":     func(s *cache.Slot[*corev1.Secret]) { _ = s.Update(secret("9")) },
		"event before a read": func(s *cache.Slot[*corev1.Secret]) {
			_ = s.Replace([]any{secret("10")}, "20")
			_ = s.Delete(secret("15"))
		},
		"event before a bookmark": func(s *cache.Slot[*corev1.Secret]) {
			_ = s.Bookmark("30")
			_ = s.Update(secret("25"))
		},
	}
	for name, step := range tests {
		t.Run(name, func(t *testing.T) {
			slot := newSlot()
			_ = slot.Replace([]any{secret("10")}, "10")
			notified := slot.Changed()
			step(slot)
			if got := slot.Load(); !got.Exists || got.ResourceVersion != "10" {
				t.Errorf("state: got %+v, want version 10 as before", got)
			}
			if changed(notified) {
				t.Error("Changed: closed by a write that was dropped")
			}
		})
	}
}

func TestSlotNewEpoch(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("100")}, "100")
	slot.NewEpoch()
	if got := slot.Load(); got.ResourceVersion != "100" || !got.Synced {
		t.Errorf("right after NewEpoch: got %+v, want the old state still served", got)
	}
	_ = slot.Replace([]any{secret("40")}, "50")
	if got := slot.Load(); got.ResourceVersion != "40" {
		t.Errorf("after a read in the new epoch: got %+v, want version 40", got)
	}
	_ = slot.Update(secret("45"))
	if got := slot.Load(); got.ResourceVersion != "40" {
		t.Errorf("an older event in the new epoch: got %+v, want version 40", got)
	}
}

// In a new epoch the same version may have other content.
func TestSlotNewEpochSameVersion(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("10")}, "20")
	slot.NewEpoch()
	notified := slot.Changed()
	restored := secret("10")
	restored.Data = map[string][]byte{"value": []byte("restored")}
	_ = slot.Replace([]any{restored}, "12")
	if got := slot.Load(); string(got.Object.Data["value"]) != "restored" || got.Epoch != 1 {
		t.Errorf("got %q in epoch %d, want the restored object in epoch 1", got.Object.Data["value"], got.Epoch)
	}
	if !changed(notified) {
		t.Error("Changed: not closed, want it closed")
	}
}

// A later read with an older object shows that the server was rolled back, and has passed the old version since.
func TestSlotOlderObjectInALaterRead(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("8")}, "9")
	_ = slot.Replace([]any{secret("5")}, "10")
	if got := slot.Load(); got.ResourceVersion != "5" || got.Epoch != 1 {
		t.Errorf("got version %s in epoch %d, want 5 in a new epoch", got.ResourceVersion, got.Epoch)
	}
}

func TestSlotOtherContentUnderTheSameVersion(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("8")}, "9")
	other := secret("8")
	other.Data = map[string][]byte{"value": []byte("other")}
	_ = slot.Replace([]any{other}, "12")
	if got := slot.Load(); string(got.Object.Data["value"]) != "other" || got.Epoch != 1 {
		t.Errorf("got %q in epoch %d, want the other content in a new epoch", got.Object.Data["value"], got.Epoch)
	}
}

func TestSlotChanged(t *testing.T) {
	tests := map[string]struct {
		step func(*cache.Slot[*corev1.Secret])
		want bool
	}{
		"newer version":  {func(s *cache.Slot[*corev1.Secret]) { _ = s.Update(secret("11")) }, true},
		"deletion":       {func(s *cache.Slot[*corev1.Secret]) { _ = s.Delete(secret("11")) }, true},
		"recreation":     {func(s *cache.Slot[*corev1.Secret]) { _ = s.Replace([]any{secret("11", "two")}, "12") }, true},
		"the same again": {func(s *cache.Slot[*corev1.Secret]) { _ = s.Replace([]any{secret("10")}, "12") }, false},
		"a bookmark":     {func(s *cache.Slot[*corev1.Secret]) { _ = s.Bookmark("12") }, false},
		"a resync":       {func(s *cache.Slot[*corev1.Secret]) { _ = s.Resync() }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			slot := newSlot()
			_ = slot.Replace([]any{secret("10")}, "10")
			first, second := slot.Changed(), slot.Changed()
			test.step(slot)
			if got := changed(first) && changed(second); got != test.want {
				t.Errorf("closed: got %v, want %v", got, test.want)
			}
			if test.want && changed(slot.Changed()) {
				t.Error("Changed after the change: got a closed channel")
			}
		})
	}
}

// After a read of the same object, the slot still holds the object that readers share.
func TestSlotKeepsEqualObject(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("10")}, "10")
	before := slot.Load().Object
	_ = slot.Replace([]any{secret("10")}, "20")
	if after := slot.Load().Object; after != before {
		t.Error("a read of the same object replaced it")
	}
}

func TestSlotCheck(t *testing.T) {
	elsewhere := secret("5")
	elsewhere.Namespace = "other"
	tests := map[string]struct {
		object runtime.Object
		want   error
	}{
		"its own":           {secret("5"), nil},
		"another namespace": {elsewhere, cache.ErrForeign},
		"another type":      {&metav1.Status{}, cache.ErrForeign},
		"nil":               {nil, cache.ErrForeign},
		"no version":        {secret(""), cache.ErrMalformed},
		"version zero":      {secret("0"), cache.ErrMalformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			slot := newSlot()
			if err := slot.Check(test.object); !errors.Is(err, test.want) {
				t.Errorf("Check: got %v, want %v", err, test.want)
			}
			if got := slot.Load(); got != (cache.State[*corev1.Secret]{}) {
				t.Errorf("after Check: got %+v, want the zero State", got)
			}
		})
	}
}

// Errors name keys and types. They must not contain the data of an object.
func TestSlotCheckHidesData(t *testing.T) {
	leak := secret("canary-version")
	leak.Data = map[string][]byte{"password": []byte("canary")}
	leak.Annotations = map[string]string{"a": "canary"}
	leak.ResourceVersion = ""
	for _, object := range []runtime.Object{leak, &corev1.ConfigMap{Data: map[string]string{"k": "canary"}}} {
		if err := newSlot().Check(object); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("Check: got %v, want an error without object data", err)
		}
	}
}

func TestSlotDropsManagedFields(t *testing.T) {
	managed := func(version string) *corev1.Secret {
		object := secret(version)
		object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		return object
	}
	slot := newSlot()
	_ = slot.Replace([]any{managed("5")}, "5")
	if got := slot.Load().Object.ManagedFields; got != nil {
		t.Errorf("after a read: got %v, want none", got)
	}
	_ = slot.Update(managed("6"))
	if got := slot.Load(); got.ResourceVersion != "6" || got.Object.ManagedFields != nil {
		t.Errorf("after an event: got version %s with %v, want 6 and none", got.ResourceVersion, got.Object.ManagedFields)
	}
}

func TestSlotUnstructured(t *testing.T) {
	slot := cache.NewSlot[*unstructured.Unstructured](key)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"namespace": key.Namespace, "name": key.Name, "resourceVersion": "5", "uid": "u"},
	}}
	_ = slot.Replace([]any{object}, "5")
	if got := slot.Load(); !got.Exists || got.Object.GetUID() != "u" {
		t.Errorf("state: got %+v, want the object", got)
	}
}

func TestSlotLoadDoesNotAllocate(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("5")}, "5")
	if got := testing.AllocsPerRun(100, func() { _ = slot.Load() }); got != 0 {
		t.Errorf("allocations per Load: got %v, want 0", got)
	}
}

// While a writer is at work, readers see whole states, and versions that only grow.
func TestSlotConcurrentReaders(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("1")}, "1")
	const last = 2000
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			seen := 0
			for seen < last {
				notified := slot.Changed()
				state := slot.Load()
				version, _ := strconv.Atoi(state.ResourceVersion)
				if version < seen {
					t.Errorf("version went back from %d to %d", seen, version)
					return
				}
				if seen = version; seen < last {
					<-notified
				}
			}
		})
	}
	for version := 2; version <= last; version++ {
		_ = slot.Update(secret(strconv.Itoa(version)))
	}
	readers.Wait()
}

func BenchmarkSlotLoad(b *testing.B) {
	slot := newSlot()
	_ = slot.Replace([]any{secret("5")}, "5")
	b.ReportAllocs()
	for b.Loop() {
		_ = slot.Load()
	}
}

// A slot that holds an absence reads an object older than it: the server was rolled
// back, and its versions have passed those that the slot has seen.
func TestObjectOlderThanItsAbsence(t *testing.T) {
	slot := newSlot()
	_ = slot.Replace(nil, "20")
	_ = slot.Replace([]any{secret("10")}, "30")
	if got := slot.Load(); got.Epoch != 1 || got.ResourceVersion != "10" {
		t.Errorf("got %+v, want version 10 in epoch 1", got)
	}
}
