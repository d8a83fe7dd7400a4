// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/volume"
	configmapvolume "k8s.io/kubernetes/pkg/volume/configmap"
	secretvolume "k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/mount-utils"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/kubelet"
)

// Kubelet's volume plugins write the objects that our managers serve, and see from the errors what is absent.
func TestVolumePlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		h := newVolumeHost(t, server)
		defer run(t, h.secrets)()
		defer run(t, h.configMaps)()
		for _, k := range []kind{secrets, configMaps} {
			(&rig{t: t, kind: k, server: server}).write("tls", "1", false)
		}
		tests := map[string]struct {
			name                   string
			optional, unregistered bool
			want                   string // the files, or the beginning of the error; KIND is the kind
		}{
			"present":                {"tls", false, false, "key"},
			"absent":                 {"absent", false, false, `KIND "absent" not found`},
			"absent, optional":       {"absent", true, false, ""},
			"invalid name":           {"Upper", false, false, `KIND "Upper" not found`},
			"invalid name, optional": {"Upper", true, false, ""},
			"not registered":         {"other", true, true, `object "default"/"other" not registered`},
		}
		for name, test := range tests {
			for _, k := range []kind{secrets, configMaps} {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: types.UID(name)}}
				pod.Spec.Volumes = []corev1.Volume{{Name: "volume", VolumeSource: k.volume(test.name, test.optional)}}
				if !test.unregistered {
					h.secrets.RegisterPod(pod)
					h.configMaps.RegisterPod(pod)
				}
				got, want := h.mount(pod), strings.ReplaceAll(test.want, "KIND", k.name)
				if got != want && (want == "" || !strings.HasPrefix(got, want)) {
					t.Errorf("%s of a %s: got %q, want %q", name, k.name, got, want)
				}
			}
		}
	})
}

// volumeHost is the part of kubelet that its volume plugins call. Other methods panic.
type volumeHost struct {
	volume.VolumeHost

	t          *testing.T
	dir        string
	secrets    *kubelet.SecretManager
	configMaps *kubelet.ConfigMapManager
}

func newVolumeHost(t *testing.T, server *apiserver.Server) *volumeHost {
	s, err := kubelet.NewWatchingSecretManager(server.Client(), resyncInterval, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubelet.NewWatchingConfigMapManager(server.Client(), resyncInterval, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &volumeHost{t: t, dir: t.TempDir(), secrets: s, configMaps: c}
}

// mount mounts the pod's only volume. It returns the names of its files, or the text of the error.
func (h *volumeHost) mount(pod *corev1.Pod) string {
	spec := volume.NewSpecFromVolume(&pod.Spec.Volumes[0])
	plugin := secretvolume.ProbeVolumePlugins()[0]
	if spec.Volume.ConfigMap != nil {
		plugin = configmapvolume.ProbeVolumePlugins()[0]
	}
	if err := plugin.Init(h); err != nil {
		h.t.Fatal(err)
	}
	mounter, err := plugin.NewMounter(spec, pod)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := mounter.SetUp(volume.MounterArgs{}); err != nil {
		return err.Error()
	}
	files, err := os.ReadDir(mounter.GetPath())
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), "..") { // the plugin's own
			names = append(names, file.Name())
		}
	}
	return strings.Join(names, " ")
}

func (h *volumeHost) GetSecretFunc() func(namespace, name string) (*corev1.Secret, error) {
	return h.secrets.GetSecret
}

func (h *volumeHost) GetConfigMapFunc() func(namespace, name string) (*corev1.ConfigMap, error) {
	return h.configMaps.GetConfigMap
}

func (h *volumeHost) GetMounter() mount.Interface { return nil }

func (h *volumeHost) GetPodVolumeDir(uid types.UID, plugin, name string) string {
	return filepath.Join(h.dir, string(uid), plugin, name)
}

func (h *volumeHost) NewWrapperMounter(string, volume.Spec, *corev1.Pod) (volume.Mounter, error) {
	return directory{}, nil
}

// directory is a volume that is an empty directory.
type directory struct{ volume.Mounter }

func (directory) SetUpAt(dir string, _ volume.MounterArgs) error { return os.MkdirAll(dir, 0o700) }
