// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

func TestPatchTypes(t *testing.T) {
	f := newFixture(t, Options{})
	for name, test := range map[string]struct {
		patchType types.PatchType
		patch     string
	}{
		"json":      {types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"2"},{"op":"remove","path":"/data/b"}]`},
		"merge":     {types.MergePatchType, `{"data":{"a":"2","b":null}}`},
		"strategic": {types.StrategicMergePatchType, `{"data":{"a":"2","b":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			configMaps := f.client.CoreV1().ConfigMaps("default")
			created, err := configMaps.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "1", "b": "1", "c": "1"},
			}, metav1.CreateOptions{})
			check(t, err)
			patched, err := configMaps.Patch(t.Context(), name, test.patchType, []byte(test.patch), metav1.PatchOptions{})
			check(t, err)
			if diff := cmp.Diff(map[string]string{"a": "2", "c": "1"}, patched.Data); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if patched.ResourceVersion == created.ResourceVersion || patched.UID != created.UID {
				t.Errorf("got %+v, want a new version of the same object", patched.ObjectMeta)
			}
		})
	}
}

// TestStrategicMergeKeys checks that a strategic merge matches containers by name.
func TestStrategicMergeKeys(t *testing.T) {
	f := newFixture(t, Options{})
	pods := f.client.CoreV1().Pods("default")
	pod := newPod("a")
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Image: "registry.test/side:v1"})
	f.createPod(pod)
	patch := []byte(`{"spec":{"containers":[{"name":"side","image":"registry.test/side:v2"}]}}`)
	patched, err := pods.Patch(t.Context(), "a", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	check(t, err)
	if len(patched.Spec.Containers) != 2 || patched.Generation != 2 {
		t.Fatalf("got %d containers at generation %d, want 2 at 2", len(patched.Spec.Containers), patched.Generation)
	}
	for _, c := range patched.Spec.Containers {
		if c.Name == "side" && c.Image != "registry.test/side:v2" || c.Name == "main" && c.Image != "registry.test/app:v1" {
			t.Errorf("got image %s of %s, want only the image of side changed", c.Image, c.Name)
		}
	}
}

func TestPatchRefuses(t *testing.T) {
	f := newFixture(t, Options{})
	created := f.createSecret(newSecret("a"))
	const path, canary = "/api/v1/namespaces/default/secrets/a", "dmFsdWUgb2YgYQ" // base64 of its value
	for name, test := range map[string]struct {
		path, mediaType, patch string
		code                   int
		message                string
	}{
		"media type":            {path, "application/json", `{}`, 415, "application/strategic-merge-patch+json"},
		"no media type":         {path, "", `{}`, 415, "application/json-patch+json"},
		"absent":                {path + "b", string(types.MergePatchType), `{}`, 404, `secrets "ab" not found`},
		"malformed merge":       {path, string(types.MergePatchType), `{`, 400, ""},
		"malformed strategic":   {path, string(types.StrategicMergePatchType), `{`, 400, ""},
		"malformed operations":  {path, string(types.JSONPatchType), `{}`, 400, ""},
		"failed test":           {path, string(types.JSONPatchType), `[{"op":"test","path":"/type","value":"x"}]`, 422, ""},
		"missing path":          {path, string(types.JSONPatchType), `[{"op":"remove","path":"/data/x/y"}]`, 422, ""},
		"stale":                 {path, string(types.MergePatchType), `{"metadata":{"resourceVersion":"1"}}`, 409, "the object has been modified"},
		"another name":          {path, string(types.MergePatchType), `{"metadata":{"name":"b"}}`, 400, "does not match the name on the URL"},
		"another uid":           {path, string(types.MergePatchType), `{"metadata":{"uid":"x"}}`, 409, "Precondition failed"},
		"wrong type":            {path, string(types.MergePatchType), `{"data":"x"}`, 422, "patch"},
		"invalid":               {path, string(types.MergePatchType), `{"metadata":{"labels":{"?":"x"}}}`, 422, "metadata.labels"},
		"strict":                {path + "?fieldValidation=Strict", string(types.MergePatchType), `{"dota":{}}`, 422, `unknown field "dota"`},
		"force without apply":   {path + "?force=true", string(types.MergePatchType), `{}`, 422, "force"},
		"apply, no manager":     {path, string(types.ApplyYAMLPatchType), `{}`, 422, "fieldManager"},
		"apply, not YAML":       {path + "?fieldManager=t", string(types.ApplyYAMLPatchType), "a: b: c", 400, "error decoding YAML"},
		"apply, another kind":   {path + "?fieldManager=t", string(types.ApplyYAMLPatchType), `{"kind":"Pod","apiVersion":"v1"}`, 400, "cannot be handled as a Secret"},
		"apply, managed fields": {path + "?fieldManager=t", string(types.ApplyYAMLPatchType), `{"metadata":{"managedFields":[{"manager":"x"}]}}`, 400, "managedFields must be nil"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodPatch, test.path, test.patch, "Content-Type", test.mediaType)
			status := got.status(t)
			if got.code != test.code || int(status.Code) != test.code || !strings.Contains(status.Message, test.message) {
				t.Errorf("got %d %s, want %d with %q", got.code, got.body, test.code, test.message)
			}
			if strings.Contains(string(got.body), canary) || strings.Contains(string(got.body), "value of a") {
				t.Errorf("got %s, want no object data in an error", got.body)
			}
		})
	}
	if now := f.ResourceVersion(); now != created.ResourceVersion {
		t.Errorf("got version %s changed to %s, want nothing written", created.ResourceVersion, now)
	}
}

func TestServerSideApply(t *testing.T) {
	f := newFixture(t, Options{})
	configMaps, options := f.client.CoreV1().ConfigMaps("default"), metav1.ApplyOptions{FieldManager: "test"}
	created, err := configMaps.Apply(t.Context(), applycorev1.ConfigMap("a", "default").WithData(map[string]string{"a": "1"}), options)
	if err != nil || created.UID == "" {
		t.Fatalf("got %v, %v, want a new object", created, err)
	}
	merged, err := configMaps.Apply(t.Context(), applycorev1.ConfigMap("a", "default").WithData(map[string]string{"b": "2"}), options)
	if err != nil || merged.UID != created.UID {
		t.Fatalf("got %v, %v, want the merged object", merged, err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, merged.Data); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	body := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  x: some\n"
	for _, want := range []int{http.StatusCreated, http.StatusOK} {
		got := f.do(http.MethodPatch, "/api/v1/namespaces/default/configmaps/b?fieldManager=t", body, "Content-Type", string(types.ApplyYAMLPatchType))
		if got.code != want {
			t.Errorf("got %d %s, want %d", got.code, got.body, want)
		}
	}
}
