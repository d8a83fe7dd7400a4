// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
)

// podScript fills the spec of a pod. It remembers each string that it has set, and where.
type podScript struct {
	bytes []byte
	set   map[*string]string // paths
}

func (s *podScript) next() (b byte) {
	if len(s.bytes) > 0 {
		b, s.bytes = s.bytes[0], s.bytes[1:]
	}
	return b
}

// mostElements is the capacity of each slice: its elements are never moved.
const mostElements = 4

// fill sets the field at path, in an element of each slice on the way.
func (s *podScript) fill(at reflect.Value, path string) {
	for step := range strings.SplitSeq(path, ".") {
		field, isSlice := strings.CutSuffix(step, "[]")
		at = at.FieldByName(field)
		if isSlice {
			if at.IsNil() {
				at.Set(reflect.MakeSlice(at.Type(), 0, mostElements))
			}
			i := int(s.next()) % mostElements
			if i >= at.Len() {
				at.SetLen(i + 1)
			}
			at = at.Index(i)
		}
		if at.Kind() == reflect.Pointer {
			if at.IsNil() {
				at.Set(reflect.New(at.Type().Elem()))
			}
			at = at.Elem()
		}
	}
	at.SetString([]string{"", "a", "b", "a.b-c"}[s.next()%4])
	s.set[at.Addr().Convert(reflect.TypeFor[*string]()).Interface().(*string)] = path
}

// FuzzVisitPodFields sets any fields of a pod, in any elements of its slices. Those that name
// an object, by the table of all fields, are visited, and no others.
func FuzzVisitPodFields(f *testing.F) {
	f.Add([]byte{})
	for i := range byte(120) {
		f.Add([]byte{i, 0, 1, i * 2, 1, 0, 2, i, 3, i * 5, 2, 1, 1, 1, 250 - i, 3, 3, 1, 2, 0})
	}
	all := podSpecLeaves(f)
	paths := slices.Sorted(maps.Keys(all))
	kinds := map[string]string{}
	for path, found := range all {
		if found.suspect && omitted[path] == "" {
			kinds[path] = kindOf(f, path)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pod, script := &corev1.Pod{}, &podScript{bytes: b[:min(len(b), 200)], set: map[*string]string{}}
		for len(script.bytes) > 0 {
			i := int(script.next()) + int(script.next())<<8
			script.fill(reflect.ValueOf(&pod.Spec).Elem(), paths[i%len(paths)])
		}
		want := map[string][]string{}
		for text, path := range script.set {
			if kind := kinds[path]; kind != "" && *text != "" {
				want[kind] = append(want[kind], *text)
			}
		}
		for kind, visitPod := range map[string]manager.VisitPodFunc{"Secret": manager.VisitPodSecretNames, "ConfigMap": manager.VisitPodConfigMapNames} {
			got := visited(visitPod, pod)
			slices.Sort(got)
			slices.Sort(want[kind])
			if !slices.Equal(got, want[kind]) {
				t.Errorf("%s names visited: got %q, want %q", kind, got, want[kind])
			}
		}
	})
}
