// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func fieldSource(path, field string) corev1.VolumeProjection {
	return corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{
		Items: []corev1.DownwardAPIVolumeFile{{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}},
	}}
}

// sourcesOfX are sources of every kind with a file at the path x: their names and contents.
var sourcesOfX = []struct {
	source        corev1.VolumeProjection
	name, content string // an empty content: no file
}{
	{secretSource("x", items("k", "./x")...), `secret "ns/x", key "k"`, "canary-secret"},
	{secretSource("all"), `secret "ns/all"`, "canary-all"},
	{configMapSource("x", items("k", "x")...), `configmap "ns/x", key "k"`, "canary-config"},
	{configMapSource("all"), `configmap "ns/all"`, "canary-config-all"},
	{fieldSource("x", "metadata.name"), `downwardAPI, field "metadata.name"`, "web-1"},
	{tokenSource("x", "vault"), `serviceAccountToken, audience "vault"`, "canary-web-1-vault"},
	{tokenSource("x", ""), `serviceAccountToken`, "canary-web-1-"},
	{tokenSource("x", "closed"), `serviceAccountToken, audience "closed"`, ""},
}

var objectsOfX = objects{
	secrets: map[string]*corev1.Secret{
		"x":   {Data: map[string][]byte{"k": []byte("canary-secret")}},
		"all": {Data: map[string][]byte{"x": []byte("canary-all")}},
	},
	configMaps: map[string]*corev1.ConfigMap{
		"x":   {Data: map[string]string{"k": "canary-config"}},
		"all": {Data: map[string]string{"x": "canary-config-all"}},
	},
	forbidden: "closed",
}

// TestConflicts: of two sources with one path the later one has the file, whatever their kinds, and the conflict has
// both names. A token that the agent may not request has the path, too: there is no file, and never that of the other
// source.
func TestConflicts(t *testing.T) {
	for _, earlier := range sourcesOfX {
		for _, later := range sourcesOfX {
			t.Run(earlier.name+", then "+later.name, func(t *testing.T) {
				volume := corev1.Volume{VolumeSource: projectedVolume(earlier.source, later.source)}
				built, err := BuildAllowed(t.Context(), testPod, &volume, objectsOfX)
				if err != nil {
					t.Fatal(err)
				}
				want := []Conflict{{Earlier: earlier.name, Later: later.name, Paths: []string{"x"}}}
				if diff := cmp.Diff(want, built.Conflicts); diff != "" {
					t.Errorf("conflicts (-want +got):\n%s", diff)
				}
				file, ok := built.Payload["x"]
				if string(file.Data) != later.content || ok != (later.content != "") || len(built.Payload) > 1 {
					t.Errorf("file: got %q (there: %v), want %q", file.Data, ok, later.content)
				}
				if want := later.source.ServiceAccountToken != nil && ok; file.Token != want {
					t.Errorf("Token of the file: got %v, want %v", file.Token, want)
				}
				if got, want := len(built.LeftOut) == 1, later.content == ""; got != want {
					t.Errorf("left out: got %v, want the forbidden token: %v", built.LeftOut, want)
				}
			})
		}
	}
}

// TestConflictsWithinASource: the later item wins, as between sources.
func TestConflictsWithinASource(t *testing.T) {
	for name, source := range map[string]corev1.VolumeSource{
		"secret":    secretVolume("tls", items("tls.crt", "x", "tls.key", "./x"), false),
		"projected": projectedVolume(secretSource("tls", items("tls.crt", "x", "tls.key", "x")...)),
	} {
		t.Run(name, func(t *testing.T) {
			built, err := BuildAllowed(t.Context(), testPod, &corev1.Volume{VolumeSource: source}, testObjects)
			if err != nil || string(built.Payload["x"].Data) != "canary-key" {
				t.Errorf("got %q and error %v, want the file of the later item", built.Payload["x"].Data, err)
			}
			want := `two sources have the path "x": secret "ns/tls", key "tls.key" replaces secret "ns/tls", key "tls.crt"`
			if got := fmt.Sprint(built.Conflicts); got != "["+want+"]" {
				t.Errorf("conflicts: got %s, want %s", got, want)
			}
		})
	}
}

// TestConflictOfManyPaths: two sources are one conflict, with a text of some paths.
func TestConflictOfManyPaths(t *testing.T) {
	many := objects{secrets: map[string]*corev1.Secret{"a": {Data: map[string][]byte{}}, "b": {Data: map[string][]byte{}}}}
	for i := range 1000 {
		for _, secret := range many.secrets {
			secret.Data[fmt.Sprintf("k%03d", i)] = []byte("canary")
		}
	}
	volume := corev1.Volume{VolumeSource: projectedVolume(secretSource("a"), secretSource("b"))}
	built, err := BuildAllowed(t.Context(), testPod, &volume, many)
	want := `[two sources have the path "k000", "k001", "k002" and 997 more: secret "ns/b" replaces secret "ns/a"]`
	if got := fmt.Sprint(built.Conflicts); got != want || err != nil {
		t.Errorf("conflicts: got %s and error %v, want %s", got, err, want)
	}
}

// TestFileAndFolder: a path that is a folder of another one is an error with both sources, also if one of them is a
// token that is left out: it must not depend on a permission whether a volume can be built.
func TestFileAndFolder(t *testing.T) {
	below := configMapSource("app", items("mode", "x/y")...)
	for _, of := range sourcesOfX {
		for _, order := range [][]corev1.VolumeProjection{{of.source, below}, {below, of.source}} {
			t.Run(of.name, func(t *testing.T) {
				volume := corev1.Volume{VolumeSource: projectedVolume(order...)}
				with := objectsOfX
				with.configMaps = map[string]*corev1.ConfigMap{"app": testObjects.configMaps["app"]}
				for name, configMap := range objectsOfX.configMaps {
					with.configMaps[name] = configMap
				}
				_, err := BuildAllowed(t.Context(), testPod, &volume, with)
				checkError(t, err, `path "x" is both a file and a folder of "x/y"`)
				checkError(t, err, "the file is from "+of.name+`, the folder from configmap "ns/app", key "mode"`)
				if err != nil && strings.Contains(err.Error(), "canary") {
					t.Errorf("error %q holds object data", err)
				}
			})
		}
	}
}
