// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/states"
)

func TestCheckRead(t *testing.T) {
	other := secret("7")
	other.Name = "other"
	tests := map[string]struct {
		items   []any
		version string
		want    secretState
		refused error
	}{
		"present":             {items: []any{secret("5")}, version: "9", want: secretState{Synced: true, Exists: true, ResourceVersion: "5"}},
		"absent":              {version: "9", want: secretState{Synced: true, ResourceVersion: "9"}},
		"version one":         {version: "1", want: secretState{Synced: true, ResourceVersion: "1"}},
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
			got, err := states.CheckRead[*corev1.Secret](key, test.items, test.version)
			if !errors.Is(err, test.refused) {
				t.Errorf("got %v, want %v", err, test.refused)
			}
			if got.Exists != (got.Object != nil) {
				t.Errorf("Exists is %v with object %v", got.Exists, got.Object)
			}
			got.Object = nil
			if got != test.want {
				t.Errorf("state: got %v, want %v", got, test.want)
			}
		})
	}
}

func TestCheckObject(t *testing.T) {
	elsewhere := secret("5")
	elsewhere.Namespace = "other"
	tests := map[string]struct {
		object any
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
			if _, err := states.CheckObject[*corev1.Secret](key, test.object); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	custom := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": key.Namespace, "name": key.Name, "resourceVersion": "5"},
	}}
	if got, err := states.CheckObject[*unstructured.Unstructured](key, custom); err != nil || got != custom {
		t.Errorf("unstructured: got %v and %v, want the object", got, err)
	}
}

// Errors name keys and types. They must not contain the data of an object.
func TestCheckHidesData(t *testing.T) {
	leak := secretWith("", "canary")
	leak.Annotations = map[string]string{"a": "canary"}
	for _, object := range []any{leak, &corev1.ConfigMap{Data: map[string]string{"k": "canary"}}} {
		if _, err := states.CheckObject[*corev1.Secret](key, object); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v, want an error without object data", err)
		}
	}
}

func metadataOf(object *corev1.Secret) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: object.ObjectMeta}
}

func TestHolds(t *testing.T) {
	other := secret("5")
	other.Name = "other"
	present, gone := exists("5", ""), absent("9")
	unsynced := present
	unsynced.Synced = false
	tests := map[string]struct {
		state secretState
		read  []any
		want  bool
	}{
		"the same":                   {present, []any{secret("5")}, true},
		"both absent":                {gone, nil, true},
		"another version":            {present, []any{secret("6")}, false},
		"an older version":           {present, []any{secret("4")}, false},
		"another UID":                {present, []any{secret("5", "two")}, false},
		"absent now":                 {present, []any{}, false},
		"created":                    {gone, []any{secret("5")}, false},
		"another object":             {present, []any{other}, false},
		"another type":               {present, []any{&corev1.ConfigMap{ObjectMeta: secret("5").ObjectMeta}}, false},
		"its metadata":               {present, []any{metadataOf(secret("5"))}, true},
		"metadata, another version":  {present, []any{metadataOf(secret("6"))}, false},
		"metadata, another UID":      {present, []any{metadataOf(secret("5", "two"))}, false},
		"metadata of another object": {present, []any{metadataOf(other)}, false},
		"no object":                  {present, []any{nil}, false},
		"two objects":                {present, []any{secret("5"), secret("5")}, false},
		"two objects, absent before": {gone, []any{secret("5"), secret("6")}, false},
		"not synced":                 {secretState{}, nil, false},
		"not synced, one event":      {unsynced, []any{secret("5")}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.state.Holds(key, test.read); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
