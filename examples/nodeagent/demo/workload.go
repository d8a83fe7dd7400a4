// SPDX-License-Identifier: Apache-2.0

package demo

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespace is the namespace of all objects of the demo. It is not "default", to show that objects come from the
// namespace of their pod.
const namespace = "shop"

// meta returns the metadata of an object. The label is for the downwardAPI volume.
func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}
}

// secret returns a Secret; the server converts its StringData.
func secret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(name), StringData: data}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(name), Data: data}
}

// demoSecrets are the Secrets of the first step. Their values are made up and may be printed.
func demoSecrets() []*corev1.Secret {
	return []*corev1.Secret{
		secret("tls", map[string]string{"tls.crt": "certificate 1", "tls.key": "key 1"}),
		secret("db", map[string]string{"user": "shop", "password": "first"}),
		secret("elsewhere", map[string]string{"for": "a pod of another node"}),
	}
}

// demoConfigMaps are a ConfigMap with text and bytes, and an immutable one, which the agent need not watch.
func demoConfigMaps() []*corev1.ConfigMap {
	app := configMap("app", map[string]string{"app.yaml": "replicas: 3\n"})
	app.BinaryData = map[string][]byte{"logo.png": {0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a}}
	settings := configMap("settings", map[string]string{"currency": "EUR"})
	settings.Immutable = new(true)
	return []*corev1.ConfigMap{app, settings}
}

// demoPods are two pods that share the Secret "tls", one whose Secret "late" is missing at first, and one on another
// node.
func demoPods(node string) []*corev1.Pod {
	return []*corev1.Pod{
		pod("web-1", node, tlsVolume(), configMapVolume("conf", "app")),
		pod("web-2", node, tlsVolume(), infoVolume()),
		pod("worker-1", node, secretVolume("db", "db"), secretVolume("late", "late")),
		pod("far-1", node+"-other", secretVolume("elsewhere", "elsewhere")),
	}
}

// pod returns a pod. Its container is required by the API and never runs.
func pod(name, node string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{
		NodeName:   node,
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/shop:1"}},
		Volumes:    volumes,
	}}
}

// secretVolume returns a volume whose files only their owner can read.
func secretVolume(volume, name string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: new(int32(0o600))},
	}}
}

// configMapVolume returns a volume without a mode: the server's default is 0644.
func configMapVolume(volume, name string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}
}

// tlsVolume returns a volume with its own mode for the key, and the certificate in a folder.
func tlsVolume() corev1.Volume {
	v := secretVolume("tls", "tls")
	v.Secret.DefaultMode = new(int32(0o644))
	v.Secret.Items = []corev1.KeyToPath{
		{Key: "tls.crt", Path: "public/tls.crt"},
		{Key: "tls.key", Path: "tls.key", Mode: new(int32(0o400))},
	}
	return v
}

// infoVolume returns a projected volume: an immutable ConfigMap, the pod's labels, and an optional Secret.
func infoVolume() corev1.Volume {
	return corev1.Volume{Name: "info", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "pod/labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "extra"}, Optional: new(true)}},
		},
	}}}
}
