// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func TestSelection(t *testing.T) {
	pod := newPod("a")
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.NodeName = "n1"
	pod.Status.Phase = corev1.PodRunning
	for name, test := range map[string]struct {
		namespace      string
		fields, labels string
		matches        bool
		scope          types.NamespacedName
		single         bool
	}{
		"everything":          {matches: true},
		"namespace":           {namespace: "default", matches: true, scope: types.NamespacedName{Namespace: "default"}},
		"another namespace":   {namespace: "x", scope: types.NamespacedName{Namespace: "x"}},
		"name":                {namespace: "default", fields: "metadata.name=a", matches: true, scope: key("a"), single: true},
		"another name":        {namespace: "default", fields: "metadata.name=b", scope: key("b"), single: true},
		"name, any namespace": {fields: "metadata.name=a", matches: true, scope: types.NamespacedName{Name: "a"}},
		"namespace by field":  {fields: "metadata.namespace=default,metadata.name=a", matches: true, scope: key("a"), single: true},
		"not the name":        {namespace: "default", fields: "metadata.name!=a", scope: types.NamespacedName{Namespace: "default"}},
		"path against field":  {namespace: "default", fields: "metadata.namespace=x", scope: types.NamespacedName{Namespace: "default"}},
		"node":                {fields: "spec.nodeName=n1", matches: true},
		"another node":        {fields: "spec.nodeName=n2"},
		"phase and name":      {namespace: "default", fields: "metadata.name=a,status.phase=Running", matches: true, scope: key("a"), single: true},
		"not finished":        {fields: "status.phase!=Succeeded,status.phase!=Failed", matches: true},
		"label":               {labels: "app=web", matches: true},
		"another label":       {labels: "app!=web"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := fields.ParseSelector(test.fields)
			check(t, err)
			l, err := labels.Parse(test.labels)
			check(t, err)
			sel := newSelection(pods, test.namespace, l, f)
			if got := sel.matches(pod); got != test.matches {
				t.Errorf("got match %t, want %t", got, test.matches)
			}
			if scope, single := sel.single(); scope != test.scope || single != test.single {
				t.Errorf("got scope %v, single %t, want %v, %t", scope, single, test.scope, test.single)
			}
			if got, want := sel.everything(), test.fields == "" && test.labels == ""; got != want {
				t.Errorf("got everything %t, want %t", got, want)
			}
		})
	}
	if _, single := newSelection(nodes, "", nil, fields.OneTermEqualSelector("metadata.name", "n")).single(); !single {
		t.Error("node by name: got single false, want true: nodes have no namespace")
	}
}
