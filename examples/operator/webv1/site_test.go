// SPDX-License-Identifier: Apache-2.0

package webv1

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestDeepCopy: a change of a copy does not change the original, which is in a cache.
func TestDeepCopy(t *testing.T) {
	newList := func() *SiteList {
		return &SiteList{Items: []Site{{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"a": "b"}},
			Spec:       SiteSpec{SecretNames: []string{"tls"}},
			Status: SiteStatus{
				Secrets:    []SecretStatus{{Name: "tls", ResourceVersion: "1"}},
				Conditions: []metav1.Condition{{Type: Ready, Status: metav1.ConditionTrue}},
			},
		}}}
	}
	list := newList()
	changed := list.DeepCopyObject().(*SiteList)
	if !reflect.DeepEqual(changed, list) {
		t.Fatalf("copy: got %+v, want %+v", changed, list)
	}
	site := &changed.Items[0]
	site.Labels["a"] = "c"
	site.Spec.SecretNames[0] = "other"
	site.Status.Secrets[0].ResourceVersion = "2"
	site.Status.Conditions[0].Status = metav1.ConditionFalse
	if want := newList(); !reflect.DeepEqual(list, want) {
		t.Errorf("original after a change of the copy: got %+v, want %+v", list, want)
	}
}

// TestAddToScheme: the scheme knows the kinds under their names in config/crd.yaml.
func TestAddToScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]runtime.Object{"Site": &Site{}, "SiteList": &SiteList{}} {
		if got, err := scheme.New(GroupVersion.WithKind(kind)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %T and error %v, want %T", kind, got, err, want)
		}
	}
}
