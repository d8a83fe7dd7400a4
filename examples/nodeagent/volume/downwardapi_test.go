// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodField(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.name":      "web-1",
		"metadata.namespace": "ns",
		"metadata.uid":       "3f6c1c9a",
		// As kubelet writes them: in the order of keys, with Go's quoting.
		"metadata.labels":                              "app=\"q\\\"x\"\ntier=\"front\"",
		"metadata.annotations":                         `example.com/note="two\nlines"`,
		"metadata.labels['tier']":                      "front",
		"metadata.labels['none']":                      "",
		"metadata.annotations['example.com/note']":     "two\nlines",
		"metadata.annotations['example.com/unwanted']": "",
	} {
		got, err := podField(testPod, path)
		if err != nil || got != want {
			t.Errorf("podField(%q): got %q and %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", "spec.nodeName", "metadata.name['x']", "metadata.labels['x'", "metadata.labels[x]", "['x']"} {
		_, err := podField(testPod, path)
		checkError(t, err, "is not supported: use metadata.name")
	}
	// Issue 8, point 13: a key that the API server refuses is an error here, too.
	for _, key := range []string{"", " ", "a b", "/x", "x/", "a/b/c", "a']['b", "UPPER.example.com/x", strings.Repeat("x", 64)} {
		for _, field := range []string{"metadata.labels", "metadata.annotations"} {
			_, err := podField(testPod, field+"['"+key+"']")
			if field == "metadata.annotations" && key == "UPPER.example.com/x" {
				checkError(t, err, "") // the API's validation ignores the case of annotation keys
				continue
			}
			checkError(t, err, "is not a valid key")
		}
	}
}

func TestBuildDownwardAPI(t *testing.T) {
	name := &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}
	for title, tc := range map[string]struct {
		item    corev1.DownwardAPIVolumeFile
		wantErr string
	}{
		"a field":       {item: corev1.DownwardAPIVolumeFile{Path: "pod/name", FieldRef: name}},
		"a resource":    {corev1.DownwardAPIVolumeFile{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}, "resourceFieldRef is not supported"},
		"nothing":       {corev1.DownwardAPIVolumeFile{Path: "x"}, "has no fieldRef"},
		"unknown field": {corev1.DownwardAPIVolumeFile{Path: "x", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}, `"status.podIP" is not supported`},
		"escaping path": {corev1.DownwardAPIVolumeFile{Path: "../name", FieldRef: name}, `path "../name" contains ".."`},
		"reserved path": {corev1.DownwardAPIVolumeFile{Path: "..name", FieldRef: name}, `starts with ".."`},
		"absolute path": {corev1.DownwardAPIVolumeFile{Path: "/name", FieldRef: name}, "is absolute"},
		"no path":       {corev1.DownwardAPIVolumeFile{FieldRef: name}, "is empty"},
	} {
		t.Run(title, func(t *testing.T) {
			for kind, source := range map[string]corev1.VolumeSource{
				"volume": {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{tc.item}}},
				"source": projectedVolume(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{tc.item}}}),
			} {
				payload, err := Build(t.Context(), testPod, &corev1.Volume{Name: "v", VolumeSource: source}, testObjects)
				checkError(t, err, tc.wantErr)
				if got := string(payload["pod/name"].Data); tc.wantErr == "" && got != "web-1" {
					t.Errorf("%s: got %q, want %q", kind, got, "web-1")
				}
			}
		})
	}
}
