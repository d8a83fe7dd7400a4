// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
)

// These are reasons why a field that looks like the name of a Secret or ConfigMap is
// none.
const (
	itemKey    = "a key inside the object, whose name is in another field"
	itemPath   = "a path inside the volume"
	dataSource = "fills a new claim: names a PersistentVolumeClaim, VolumeSnapshot or custom populator, which controllers read and the node does not"
)

// omitted maps the fields of v1.PodSpec that look like the name of a Secret or
// ConfigMap, and are none, to the reason.
var omitted = map[string]string{
	"Containers[].Env[].ValueFrom.ConfigMapKeyRef.Key": itemKey,
	"Containers[].Env[].ValueFrom.SecretKeyRef.Key":    itemKey,

	"InitContainers[].Env[].ValueFrom.ConfigMapKeyRef.Key": itemKey,
	"InitContainers[].Env[].ValueFrom.SecretKeyRef.Key":    itemKey,

	"EphemeralContainers[].EphemeralContainerCommon.Env[].ValueFrom.ConfigMapKeyRef.Key": itemKey,
	"EphemeralContainers[].EphemeralContainerCommon.Env[].ValueFrom.SecretKeyRef.Key":    itemKey,

	"Volumes[].VolumeSource.ConfigMap.Items[].Key":                      itemKey,
	"Volumes[].VolumeSource.ConfigMap.Items[].Path":                     itemPath,
	"Volumes[].VolumeSource.Secret.Items[].Key":                         itemKey,
	"Volumes[].VolumeSource.Secret.Items[].Path":                        itemPath,
	"Volumes[].VolumeSource.Projected.Sources[].ConfigMap.Items[].Key":  itemKey,
	"Volumes[].VolumeSource.Projected.Sources[].ConfigMap.Items[].Path": itemPath,
	"Volumes[].VolumeSource.Projected.Sources[].Secret.Items[].Key":     itemKey,
	"Volumes[].VolumeSource.Projected.Sources[].Secret.Items[].Path":    itemPath,

	"Volumes[].VolumeSource.CephFS.SecretFile": "a path on the node",

	claim + "DataSource.APIGroup":     dataSource,
	claim + "DataSource.Kind":         dataSource,
	claim + "DataSource.Name":         dataSource,
	claim + "DataSourceRef.APIGroup":  dataSource,
	claim + "DataSourceRef.Kind":      dataSource,
	claim + "DataSourceRef.Name":      dataSource,
	claim + "DataSourceRef.Namespace": dataSource,
}

// claim is the path of the claim template of a generic ephemeral volume.
const claim = "Volumes[].VolumeSource.Ephemeral.VolumeClaimTemplate.Spec."

// leaf is a field of v1.PodSpec that holds a string. Its path consists of Go field
// names, with "[]" after those of slices.
type leaf struct {
	path string
	// suspect is set if the field may name a Secret or ConfigMap, according to the
	// name of a field or type on its path.
	suspect bool
}

// leaves returns every field below typ that can hold a string. It uses no list of
// fields, so it finds those that a newer k8s.io/api adds.
func leaves(t testing.TB, typ reflect.Type, at leaf, above ...reflect.Type) []leaf {
	t.Helper()
	if slices.Contains(above, typ) {
		t.Fatalf("%s: type %v contains itself: extend leaves", at.path, typ)
	}
	at.suspect = at.suspect || suspicious(typ.Name())
	switch typ.Kind() {
	case reflect.String:
		return []leaf{at}
	case reflect.Pointer:
		return leaves(t, typ.Elem(), at, above...)
	case reflect.Slice:
		at.path += "[]"
		return leaves(t, typ.Elem(), at, above...)
	case reflect.Struct:
		var found []leaf
		for field := range typ.Fields() {
			if !field.IsExported() {
				continue
			}
			below := leaf{path: field.Name, suspect: at.suspect || suspicious(field.Name, field.Tag.Get("json"))}
			if at.path != "" {
				below.path = at.path + "." + field.Name
			}
			found = append(found, leaves(t, field.Type, below, append(above, typ)...)...)
		}
		return found
	case reflect.Map, reflect.Interface, reflect.Array:
		if at.suspect {
			t.Fatalf("%s: may name a Secret or ConfigMap in a %v: extend leaves and set", at.path, typ)
		}
	}
	return nil // a number, a bool, or a map that names nothing
}

// suspicious reports whether one of the names of a field or type suggests that it
// names an object.
func suspicious(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		name = strings.ToLower(name)
		return strings.Contains(name, "secret") || strings.Contains(name, "configmap") ||
			strings.Contains(name, "objectreference")
	})
}

// podSpecLeaves returns the leaves of v1.PodSpec by their paths.
func podSpecLeaves(t testing.TB) map[string]leaf {
	t.Helper()
	byPath := map[string]leaf{}
	for _, found := range leaves(t, reflect.TypeFor[corev1.PodSpec](), leaf{}) {
		byPath[found.path] = found
	}
	return byPath
}

// set sets the field at path to text. It creates all pointers on the path, and
// slices with one element.
func set(at reflect.Value, path, text string) {
	for step := range strings.SplitSeq(path, ".") {
		field, isSlice := strings.CutSuffix(step, "[]")
		at = at.FieldByName(field)
		if isSlice {
			at.Set(reflect.MakeSlice(at.Type(), 1, 1))
			at = at.Index(0)
		}
		if at.Kind() == reflect.Pointer {
			at.Set(reflect.New(at.Type().Elem()))
			at = at.Elem()
		}
	}
	at.SetString(text)
}

// texts returns the strings at path, in every element of each slice.
func texts(at reflect.Value, path string) []string {
	if at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return nil
		}
		at = at.Elem()
	}
	if path == "" {
		return []string{at.String()}
	}
	step, rest, _ := strings.Cut(path, ".")
	field, isSlice := strings.CutSuffix(step, "[]")
	at = at.FieldByName(field)
	if !isSlice {
		return texts(at, rest)
	}
	var found []string
	for _, element := range at.Seq2() {
		found = append(found, texts(element, rest)...)
	}
	return found
}

// visited returns the names that visitPod visits, in order.
func visited(visitPod manager.VisitPodFunc, pod *corev1.Pod) []string {
	var names []string
	visitPod(pod, func(name string) { names = append(names, name) })
	return names
}

// kindOf returns the kind that a suspicious path names.
func kindOf(t testing.TB, path string) string {
	t.Helper()
	lower := strings.ToLower(path)
	secret, configMap := strings.Contains(lower, "secret"), strings.Contains(lower, "configmap")
	if secret == configMap {
		t.Fatalf("v1.PodSpec %s: names a Secret or a ConfigMap, or neither: "+
			"if neither, add it to omitted, else visit it and extend kindOf", path)
	}
	if secret {
		return "Secret"
	}
	return "ConfigMap"
}

// The test sets one field of v1.PodSpec after another. A field that can name a
// Secret or ConfigMap must be visited, and no other field.
func TestReferencesVisitEveryFieldOfPodSpec(t *testing.T) {
	for path, found := range podSpecLeaves(t) {
		t.Run(path, func(t *testing.T) {
			pod := &corev1.Pod{}
			set(reflect.ValueOf(&pod.Spec).Elem(), path, "an-object")
			got := map[string][]string{
				"Secret":    visited(manager.VisitPodSecretNames, pod),
				"ConfigMap": visited(manager.VisitPodConfigMapNames, pod),
			}
			want := map[string][]string{"Secret": nil, "ConfigMap": nil}
			if reason := omitted[path]; found.suspect && reason == "" {
				want[kindOf(t, path)] = []string{"an-object"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("v1.PodSpec %s, visited (-want +got):\n%s"+
					"If this field names an object, visit it in visit_pod.go; "+
					"if it does not, add it to omitted in this file with the reason.", path, diff)
			}
		})
	}
}

func TestVisitPodOmittedIsNotStale(t *testing.T) {
	all := podSpecLeaves(t)
	for path, reason := range omitted {
		if !all[path].suspect {
			t.Errorf("omitted[%q]: got no such field that may name an object in v1.PodSpec, want one; remove the entry", path)
		}
		if reason == "" {
			t.Errorf("omitted[%q]: got no reason, want one", path)
		}
	}
}

// severalSources has several containers, repeated and empty names, and a volume with
// more than one source, which no API server admits.
const severalSources = `{"spec": {
  "imagePullSecrets": [{"name": "pull"}, {}, {"name": "pull"}],
  "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}, {"configMapRef": {"name": "init-map"}}]}, {}],
  "containers": [
    {"env": [{"name": "PLAIN", "value": "x"}, {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
    {"env": [
      {"name": "A", "valueFrom": {"secretKeyRef": {"name": "app", "key": "a", "optional": true}}},
      {"name": "B", "valueFrom": {"secretKeyRef": {"name": "app", "key": "b"}}},
      {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "app-map", "key": "c"}}},
      {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "", "key": "d"}}}]}],
  "ephemeralContainers": [{"name": "debug", "envFrom": [{"secretRef": {"name": "debug"}}]}],
  "volumes": [
    {"name": "none", "emptyDir": {}},
    {"name": "many", "secret": {"secretName": "one"}, "configMap": {"name": "two"}, "csi": {"driver": "d", "nodePublishSecretRef": {"name": "three"}},
     "rbd": {"secretRef": {"name": "four"}}, "azureFile": {"secretName": ""}, "cephfs": {}},
    {"name": "all", "projected": {"sources": [
      {"secret": {"name": "five"}}, {"configMap": {"name": "six"}}, {"downwardAPI": {}}, {"secret": {"name": "five"}}]}}]
}}`

func podFrom(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := json.Unmarshal([]byte(text), pod); err != nil {
		t.Fatalf("decode the pod: got %v, want no error", err)
	}
	return pod
}

func TestVisitPod(t *testing.T) {
	tests := map[string]struct {
		visitPod manager.VisitPodFunc
		pod      *corev1.Pod
		want     []string
	}{
		"secrets, nil pod":         {manager.VisitPodSecretNames, nil, nil},
		"config maps, nil pod":     {manager.VisitPodConfigMapNames, nil, nil},
		"secrets, empty pod":       {manager.VisitPodSecretNames, &corev1.Pod{}, nil},
		"config maps, empty pod":   {manager.VisitPodConfigMapNames, &corev1.Pod{}, nil},
		"secrets, everywhere":      {manager.VisitPodSecretNames, podFrom(t, severalSources), []string{"pull", "pull", "init", "app", "app", "debug", "one", "three", "four", "five", "five"}},
		"config maps, everywhere":  {manager.VisitPodConfigMapNames, podFrom(t, severalSources), []string{"init-map", "app-map", "two", "six"}},
		"secrets, only status set": {manager.VisitPodSecretNames, &corev1.Pod{Status: corev1.PodStatus{Message: "secret"}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.pod.DeepCopy()
			if diff := cmp.Diff(test.want, visited(test.visitPod, test.pod)); diff != "" {
				t.Errorf("visited names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.pod); diff != "" {
				t.Errorf("the pod after the visit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVisitPodDoesNotAllocate(t *testing.T) {
	pod := podFrom(t, severalSources)
	count := 0
	visit := func(string) { count++ }
	for name, visitPod := range map[string]manager.VisitPodFunc{"VisitPodSecretNames": manager.VisitPodSecretNames, "VisitPodConfigMapNames": manager.VisitPodConfigMapNames} {
		if got := testing.AllocsPerRun(100, func() { visitPod(pod, visit) }); got != 0 {
			t.Errorf("%s: got %v allocations per call, want 0", name, got)
		}
	}
	if count == 0 {
		t.Errorf("names visited: got 0, want some")
	}
}

// FuzzVisitPod compares the visited names with those that reflection finds at every
// path, in pods with any number of containers, volumes and sources.
func FuzzVisitPod(f *testing.F) {
	f.Add([]byte(severalSources))
	f.Add([]byte(`{"spec": {"volumes": [{"projected": {"sources": [{}, {"secret": {}}]}}, {"iscsi": {"secretRef": {"name": "a"}}}]}}`))
	paths := map[string][]string{}
	for path, found := range podSpecLeaves(f) {
		if found.suspect && omitted[path] == "" {
			kind := kindOf(f, path)
			paths[kind] = append(paths[kind], path)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pod := &corev1.Pod{}
		if err := json.Unmarshal(data, pod); err != nil {
			t.Skip("no pod")
		}
		for kind, visitPod := range map[string]manager.VisitPodFunc{"Secret": manager.VisitPodSecretNames, "ConfigMap": manager.VisitPodConfigMapNames} {
			var want []string
			for _, path := range paths[kind] {
				want = append(want, texts(reflect.ValueOf(&pod.Spec), path)...)
			}
			want = slices.DeleteFunc(want, func(name string) bool { return name == "" })
			got := visited(visitPod, pod)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s names visited: got %q, want %q", kind, got, want)
			}
		}
	})
}

func ExampleVisitPodSecretNames() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		Volumes: []corev1.Volume{{
			Name:         "certificates",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}},
		}},
	}}
	manager.VisitPodSecretNames(pod, func(name string) { fmt.Println(name) })
	// Output:
	// registry
	// tls
}
