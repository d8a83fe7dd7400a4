// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// statusResources is the resource widgets with a status subresource.
func statusResources() []CustomResource {
	widgets := customResources[0]
	widgets.StatusSubresource = true
	return []CustomResource{widgets}
}

// wantWidget fails the test unless a widget has this size, phase and generation. The phase is "" without a status.
func wantWidget(t *testing.T, got *unstructured.Unstructured, size int64, phase string, generation int64) {
	t.Helper()
	gotSize, _, _ := unstructured.NestedInt64(got.Object, "spec", "size")
	gotPhase, _, _ := unstructured.NestedString(got.Object, "status", "phase")
	if gotSize != size || gotPhase != phase || got.GetGeneration() != generation {
		t.Errorf("got size %d, phase %q, generation %d, want %d, %q, %d", gotSize, gotPhase, got.GetGeneration(), size, phase, generation)
	}
}

// TestCustomResourceStatus: with StatusSubresource, only "/status" writes the status, and writes nothing else. Only
// other writes raise the generation. The results are those of kube-apiserver 1.36.
func TestCustomResourceStatus(t *testing.T) {
	f := newFixture(t, Options{CustomResources: statusResources()})
	setPhase := func(obj *unstructured.Unstructured, phase string) {
		check(t, unstructured.SetNestedField(obj.Object, phase, "status", "phase"))
	}
	setSize := func(obj *unstructured.Unstructured, size int64) {
		check(t, unstructured.SetNestedField(obj.Object, size, "spec", "size"))
	}
	widget := newWidget("a", 1)
	setPhase(widget, "made up")
	widget, err := f.widgets().Create(t.Context(), widget, metav1.CreateOptions{})
	check(t, err)
	wantWidget(t, widget, 1, "", 1)

	setSize(widget, 2)
	setPhase(widget, "Ready")
	widget.SetLabels(map[string]string{"a": "b"})
	widget, err = f.widgets().UpdateStatus(t.Context(), widget, metav1.UpdateOptions{})
	check(t, err)
	wantWidget(t, widget, 1, "Ready", 1)
	if widget.GetLabels() != nil {
		t.Errorf("update of the status: got labels %v, want none", widget.GetLabels())
	}

	setSize(widget, 3)
	setPhase(widget, "made up")
	widget, err = f.widgets().Update(t.Context(), widget, metav1.UpdateOptions{})
	check(t, err)
	wantWidget(t, widget, 3, "Ready", 2)

	unstructured.RemoveNestedField(widget.Object, "status")
	widget, err = f.widgets().UpdateStatus(t.Context(), widget, metav1.UpdateOptions{})
	check(t, err)
	wantWidget(t, widget, 3, "", 2)
}

// TestCustomResourceStatusRequests checks the responses on the paths of subresources.
func TestCustomResourceStatusRequests(t *testing.T) {
	f := newFixture(t, Options{CustomResources: statusResources()})
	f.createWidget("a", 1)
	const mergeType, widgets = "application/merge-patch+json", "/namespaces/default/widgets"
	f.checkResponses("/apis/example.com/v1", map[string]rawRequest{
		"get":           {http.MethodGet, widgets + "/a/status", "", "", 200, `"size":1`},
		"patch":         {http.MethodPatch, widgets + "/a/status", mergeType, `{"spec":{"size":7},"status":{"phase":"Ready"}}`, 200, `"spec":{"size":1},"status":{"phase":"Ready"}`},
		"delete":        {http.MethodDelete, widgets + "/a/status", "", "", 405, "MethodNotAllowed"},
		"not served":    {http.MethodGet, "/namespaces/default/gadgets", "", "", 404, "404 page not found"},
		"another":       {http.MethodGet, widgets + "/a/scale", "", "", 404, `widgets.example.com \"a\" not found`},
		"in discovery":  {http.MethodGet, "", "", "", 200, `{"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","verbs":["get","patch","update"]}`},
		"absent object": {http.MethodPatch, widgets + "/none/status", mergeType, `{"status":{}}`, 404, `widgets.example.com \"none\" not found`},
	})
}
