// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// objects is a Getter with two maps by name, for the namespace "ns". The name forbidden cannot be read.
type objects struct {
	secrets    map[string]*corev1.Secret
	configMaps map[string]*corev1.ConfigMap
	forbidden  string
}

func (o objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return lookup(o.secrets, o.forbidden, "secrets", namespace, name)
}

func (o objects) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return lookup(o.configMaps, o.forbidden, "configmaps", namespace, name)
}

// Token returns a token for each audience but the forbidden one.
func (o objects) Token(_ context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) (string, error) {
	switch projection.Audience {
	case o.forbidden:
		return "", apierrors.NewForbidden(corev1.Resource("serviceaccounts/token"), "default", errors.New("no relationship found"))
	case "none":
		return "", errors.New("no answer yet")
	}
	return "canary-" + pod.Name + "-" + projection.Audience, nil
}

func lookup[T any](in map[string]*T, forbidden, resource, namespace, name string) (*T, error) {
	gr := corev1.Resource(resource)
	if name == forbidden {
		return nil, apierrors.NewForbidden(gr, name, errors.New("no relationship found"))
	}
	if object, ok := in[name]; ok && namespace == "ns" {
		return object, nil
	}
	return nil, apierrors.NewNotFound(gr, name)
}

// testObjects are the objects of the tests below. Their values contain "canary", which no error may contain.
var testObjects = objects{
	secrets: map[string]*corev1.Secret{
		"tls": {Data: map[string][]byte{"tls.crt": []byte("canary-crt"), "tls.key": []byte("canary-key")}},
	},
	configMaps: map[string]*corev1.ConfigMap{
		"app": {
			Data:       map[string]string{"app.yaml": "a: 1", "mode": "canary-fast"},
			BinaryData: map[string][]byte{"logo.png": {0x89, 'P', 0xff, 0x00}},
		},
	},
	forbidden: "closed",
}

var testPod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
	Namespace: "ns", Name: "web-1", UID: "3f6c1c9a",
	Labels:      map[string]string{"tier": "front", "app": `q"x`},
	Annotations: map[string]string{"example.com/note": "two\nlines"},
}}

func items(pairs ...string) []corev1.KeyToPath {
	var out []corev1.KeyToPath
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, corev1.KeyToPath{Key: pairs[i], Path: pairs[i+1]})
	}
	return out
}

func secretVolume(name string, items []corev1.KeyToPath, optional bool) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items, Optional: &optional}}
}

func configMapVolume(name string, items []corev1.KeyToPath, optional bool) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items, Optional: &optional}}
}

func projectedVolume(sources ...corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}
}

func secretSource(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items}}
}

func configMapSource(name string, items ...corev1.KeyToPath) corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items}}
}

func tokenSource(path, audience string) corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: path, Audience: audience}}
}

// TestBuildAllowed: a forbidden token is returned, and the volume is built without it.
func TestBuildAllowed(t *testing.T) {
	volume := corev1.Volume{VolumeSource: projectedVolume(tokenSource("./token", "closed"), configMapSource("app", items("mode", "mode")...))}
	built, err := BuildAllowed(t.Context(), testPod, &volume, testObjects)
	if err != nil || len(built.Payload) != 1 || len(built.Conflicts) != 0 {
		t.Errorf("BuildAllowed: got %d files, conflicts %v and error %v, want the file of the ConfigMap", len(built.Payload), built.Conflicts, err)
	}
	leftOut := built.LeftOut
	if len(leftOut) != 1 || leftOut[0].Path != "token" || !apierrors.IsForbidden(leftOut[0]) || !strings.Contains(leftOut[0].Error(), `serviceAccountToken at "token"`) {
		t.Errorf("left out: got %v, want the forbidden token", leftOut)
	}
}

func TestBuild(t *testing.T) {
	for name, tc := range map[string]struct {
		source corev1.VolumeSource
		want   map[string]string
	}{
		"secret, every key": {
			source: secretVolume("tls", nil, false),
			want:   map[string]string{"tls.crt": "canary-crt", "tls.key": "canary-key"},
		},
		"secret, items at nested paths, one key twice": {
			source: secretVolume("tls", items("tls.crt", "a/b/c", "tls.crt", "./a//d"), false),
			want:   map[string]string{"a/b/c": "canary-crt", "a/d": "canary-crt"},
		},
		"configMap with binary data": {
			source: configMapVolume("app", nil, false),
			want:   map[string]string{"app.yaml": "a: 1", "mode": "canary-fast", "logo.png": "\x89P\xff\x00"},
		},
		"configMap, binary item": {
			source: configMapVolume("app", items("logo.png", "img/logo.png"), false),
			want:   map[string]string{"img/logo.png": "\x89P\xff\x00"},
		},
		"optional, absent": {source: secretVolume("none", items("k", "p"), true), want: map[string]string{}},
		"optional, key absent": {
			source: configMapVolume("app", items("mode", "mode", "none", "none"), true),
			want:   map[string]string{"mode": "canary-fast"},
		},
		"projected, the later source wins": {
			source: projectedVolume(secretSource("tls", items("tls.crt", "conf/x")...), configMapSource("app", items("mode", "conf/x", "app.yaml", "conf/y")...)),
			want:   map[string]string{"conf/x": "canary-fast", "conf/y": "a: 1"},
		},
		"projected, a token": {
			source: projectedVolume(tokenSource("t/token", "vault"), configMapSource("app", items("mode", "mode")...)),
			want:   map[string]string{"t/token": "canary-web-1-vault", "mode": "canary-fast"},
		},
		"projected, no sources": {source: projectedVolume(), want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			volume := corev1.Volume{Name: "v", VolumeSource: tc.source}
			if !Handles(&volume) {
				t.Error("Handles: got false, want true")
			}
			payload, err := Build(t.Context(), testPod, &volume, testObjects)
			if err != nil {
				t.Fatalf("Build: got error %v, want none", err)
			}
			got := map[string]string{}
			for path, file := range payload {
				got[path] = string(file.Data)
				if file.Mode != 0o644 {
					t.Errorf("%s: got mode %#o, want the default 0644", path, file.Mode)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Build: unexpected files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBuildModes: in every kind of volume an item's mode has precedence over the volume's, and that over 0644.
func TestBuildModes(t *testing.T) {
	private := []corev1.KeyToPath{{Key: "mode", Path: "private", Mode: ptr.To[int32](0o400)}, {Key: "mode", Path: "plain"}}
	secret := []corev1.KeyToPath{{Key: "tls.key", Path: "private", Mode: ptr.To[int32](0o400)}, {Key: "tls.key", Path: "plain"}}
	field := &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}
	fields := []corev1.DownwardAPIVolumeFile{{Path: "private", FieldRef: field, Mode: ptr.To[int32](0o400)}, {Path: "plain", FieldRef: field}}
	volumeMode := ptr.To[int32](0o640)
	for name, source := range map[string]corev1.VolumeSource{
		"secret": {Secret: &corev1.SecretVolumeSource{SecretName: "tls", Items: secret, DefaultMode: volumeMode}},
		"configMap": {ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "app"}, Items: private, DefaultMode: volumeMode}},
		"downwardAPI": {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: fields, DefaultMode: volumeMode}},
		"projected": {Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{configMapSource("app", private...)}, DefaultMode: volumeMode}},
	} {
		t.Run(name, func(t *testing.T) {
			payload, err := Build(t.Context(), testPod, &corev1.Volume{Name: "v", VolumeSource: source}, testObjects)
			if err != nil {
				t.Fatalf("Build: got error %v, want none", err)
			}
			if got := payload["private"].Mode; got != 0o400 {
				t.Errorf("mode of the item: got %#o, want 0400", got)
			}
			if got := payload["plain"].Mode; got != 0o640 {
				t.Errorf("mode of the volume: got %#o, want 0640", got)
			}
		})
	}
}

func TestBuildErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		source  corev1.VolumeSource
		wantErr string
	}{
		"secret absent":           {secretVolume("none", nil, false), `secrets "none" not found`},
		"configMap absent":        {configMapVolume("none", nil, false), `configmaps "none" not found`},
		"optional, forbidden":     {secretVolume("closed", nil, true), `secrets "closed" is forbidden`},
		"key absent":              {secretVolume("tls", items("none", "p"), false), `secret "ns/tls" has no key "none"`},
		"no name":                 {secretVolume("", nil, false), "no name of a secret"},
		"path escapes":            {secretVolume("tls", items("tls.crt", "../x"), false), `path "../x" contains ".."`},
		"path escapes, optional":  {secretVolume("tls", items("tls.crt", "../x"), true), `path "../x" contains ".."`},
		"path absolute":           {configMapVolume("app", items("mode", "/etc/x"), false), `path "/etc/x" is absolute`},
		"path reserved":           {configMapVolume("app", items("mode", "..data/x"), false), `path "..data/x" starts with ".."`},
		"file and folder":         {configMapVolume("app", items("mode", "a", "mode", "a/b"), false), `"a" is both a file and a folder of "a/b"`},
		"token pending":           {projectedVolume(tokenSource("token", "none")), `serviceAccountToken at "token": no answer yet`},
		"token forbidden":         {projectedVolume(tokenSource("token", "closed")), `serviceAccountToken at "token"`},
		"token at a bad path":     {projectedVolume(tokenSource("../token", "")), `serviceAccountToken: path "../token" contains ".."`},
		"trust bundle":            {projectedVolume(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "ca"}}), "clusterTrustBundle is not supported"},
		"pod certificate":         {projectedVolume(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}), "podCertificate is not supported"},
		"empty source":            {projectedVolume(corev1.VolumeProjection{}), "source of the volume is empty"},
		"first cause of two":      {projectedVolume(secretSource("none"), configMapSource("closed")), `secrets "none" not found`},
		"second cause of two":     {projectedVolume(secretSource("none"), configMapSource("closed")), `configmaps "closed" is forbidden`},
		"good source, bad source": {projectedVolume(secretSource("tls"), configMapSource("none")), `configmaps "none" not found`},
		"another kind":            {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "not a secret, configMap"},
	} {
		t.Run(name, func(t *testing.T) {
			payload, err := Build(t.Context(), testPod, &corev1.Volume{Name: "v", VolumeSource: tc.source}, testObjects)
			checkError(t, err, tc.wantErr)
			if payload != nil {
				t.Errorf("Build: got %d files with an error, want none", len(payload))
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("Build: error %q holds object data", err)
			}
		})
	}
}

// TestBuildWithoutTokens: a Getter need not be a TokenGetter.
func TestBuildWithoutTokens(t *testing.T) {
	volume := corev1.Volume{VolumeSource: projectedVolume(tokenSource("token", ""))}
	_, err := Build(t.Context(), testPod, &volume, struct{ Getter }{testObjects})
	checkError(t, err, "serviceAccountToken is not supported by this getter")
}

// TestBuildKeepsCause: a caller can inspect the cause with errors.As.
func TestBuildKeepsCause(t *testing.T) {
	volume := corev1.Volume{VolumeSource: projectedVolume(secretSource("closed"))}
	if _, err := Build(t.Context(), testPod, &volume, testObjects); !apierrors.IsForbidden(err) {
		t.Errorf("Build: IsForbidden(%v): got false, want true", err)
	}
	volume = corev1.Volume{VolumeSource: secretVolume("none", nil, false)}
	if _, err := Build(t.Context(), testPod, &volume, testObjects); !apierrors.IsNotFound(err) {
		t.Errorf("Build: IsNotFound(%v): got false, want true", err)
	}
}

func TestHandlesOthers(t *testing.T) {
	volume := corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}
	if Handles(&volume) {
		t.Error("Handles(hostPath): got true, want false")
	}
}
