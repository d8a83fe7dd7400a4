// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// managed returns the canary Secret with managedFields of n managers.
func managed(n int) *corev1.Secret {
	secret := canarySecret()
	for i := range n {
		secret.ManagedFields = append(secret.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprint("manager-", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1",
			Time: &metav1.Time{Time: time.Unix(1e9, 0)}, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:key-` + strings.Repeat("x", i) + `":{}}}`),
		})
	}
	return secret
}

// knowing returns a stream that has decoded an object of its resource before.
func knowing(t testing.TB, body []byte, withoutManagedFields bool) *restStream {
	t.Helper()
	stream := streamOf(bytes.NewReader(append(protobufFrame(t, watch.Added, canarySecret()), body...)))
	stream.source.resource.WithoutManagedFields = withoutManagedFields
	if _, err := stream.Next(); err != nil {
		t.Fatal(err)
	}
	return stream
}

// Events of a known kind are those that client-go's decoder makes of the frames, with or without managedFields.
func TestCutProtobuf(t *testing.T) {
	large := managed(3)
	large.Data["large"] = bytes.Repeat([]byte("x"), largeObject)
	tests := map[string]struct {
		eventType watch.EventType
		secret    *corev1.Secret
		keeps     bool // the managedFields, though they may be omitted
	}{
		"no managedFields": {watch.Added, canarySecret(), false},
		"one manager":      {watch.Modified, managed(1), false},
		"many managers":    {watch.Modified, managed(100), false},
		"deleted":          {watch.Deleted, managed(1), false},
		"a bookmark":       {watch.Bookmark, bookmarkAt("7"), false},
		"large":            {watch.Modified, large, true},
	}
	for name, test := range tests {
		for _, without := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", without managedFields: ", without), func(t *testing.T) {
				event, err := knowing(t, protobufFrame(t, test.eventType, test.secret), without).Next()
				if err != nil || event.Type != test.eventType {
					t.Fatalf("got %s and %v, want %s", event.Type, err, test.eventType)
				}
				want := test.secret.DeepCopy()
				if want.TypeMeta = (metav1.TypeMeta{}); without && !test.keeps {
					want.ManagedFields = nil
				}
				if !equality.Semantic.DeepEqual(event.Object, want) {
					t.Errorf("got %v, want %v", event.Object, want)
				}
			})
		}
	}
}

// A known kind is decoded without client-go's decoders, which allocate more.
func TestKnownKindIsCut(t *testing.T) {
	stream := streamOf(nil)
	frame := protobufFrame(t, watch.Modified, managed(1))[4:]
	decode := func() {
		if _, err := stream.decodeProtobuf(bytes.Clone(frame)); err != nil {
			t.Fatal(err)
		}
	}
	other := testing.AllocsPerRun(1, func() { stream.source.resource.kind.meta.Store(nil); decode() })
	decode()
	stream.source.resource.WithoutManagedFields = true
	if got := testing.AllocsPerRun(100, decode); got > other/2 {
		t.Errorf("got %v allocations, want half of %v at most", got, other)
	}
}

// An object of another kind, and an event in another form, are client-go's to judge.
func TestOtherKindIsNotCut(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	if event, err := knowing(t, protobufFrame(t, watch.Modified, pod), true).Next(); err == nil {
		t.Errorf("a Pod: got %s %T, want an error", event.Type, event.Object)
	}
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410}
	event, err := knowing(t, protobufFrame(t, watch.Error, status), true).Next()
	if got, ok := event.Object.(*metav1.Status); err != nil || !ok || got.Code != 410 {
		t.Errorf("an error: got %T and %v, want the Status", event.Object, err)
	}
}

// FuzzCutProtobuf compares what is decoded here with what client-go's decoder makes of the same frame. It may only
// accept more if that stands in managedFields, which are not looked at.
func FuzzCutProtobuf(f *testing.F) {
	for _, secret := range []runtime.Object{canarySecret(), managed(1), managed(5), named(""), &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}} {
		for _, eventType := range []watch.EventType{watch.Added, watch.Bookmark, watch.Error} {
			f.Add(protobufFrame(f, eventType, secret)[4:])
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		reference := streamOf(nil)
		want, wantErr := reference.decodeProtobuf(bytes.Clone(frame))
		for _, without := range []bool{false, true} {
			stream := knowing(t, nil, without)
			got, err := stream.decodeProtobuf(bytes.Clone(frame))
			checkSecrecy(t, err)
			if err == nil && wantErr != nil && without {
				continue
			}
			if (err == nil) != (wantErr == nil) || got.Type != want.Type {
				t.Fatalf("without managedFields: %v: got %s and %v, want %s and %v", without, got.Type, err, want.Type, wantErr)
			}
			if err != nil {
				continue
			}
			expected := want.Object.DeepCopyObject()
			for _, object := range []runtime.Object{expected, got.Object} {
				if secret, ok := object.(*corev1.Secret); ok && without {
					secret.ManagedFields = nil // a second one of metadata may have some
				}
			}
			if !equality.Semantic.DeepEqual(got.Object, expected) {
				t.Fatalf("without managedFields: %v: got %v, want %v", without, got.Object, expected)
			}
		}
	})
}
