// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// expect gets the objects of a volume from the server, and returns the files that the volume must hold and the versions
// of those objects. It uses package volume, as the agent does: the demo checks that the agent used the newest objects
// and that the result is on disk.
func (d *demo) expect(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (files volume.Payload, from string, err error) {
	server := &serverGetter{client: d.client}
	files, err = volume.Build(ctx, pod, v, server)
	return files, strings.Join(server.versions, ", "), err
}

// compare compares the files of a volume on disk with want.
func (d *demo) compare(pod *corev1.Pod, name string, want volume.Payload) error {
	got, err := readVolume(d.path(pod, name))
	if err != nil {
		return err
	}
	same := func(a, b volume.File) bool { return a.Mode == b.Mode && bytes.Equal(a.Data, b.Data) }
	if !maps.EqualFunc(got, want, same) {
		return fmt.Errorf("%s: the files in %s differ from the server's objects", pod.Name, shortPath(pod.UID, name))
	}
	return nil
}

// serverGetter is a [volume.Getter] that reads from the server, without a cache, and records the versions. Use one per
// volume.
type serverGetter struct {
	client   kubernetes.Interface
	versions []string
}

func (g *serverGetter) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	s, err := g.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		g.versions = append(g.versions, fmt.Sprintf("secret %q v%s", name, s.ResourceVersion))
	}
	return s, err
}

func (g *serverGetter) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	c, err := g.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		g.versions = append(g.versions, fmt.Sprintf("configmap %q v%s", name, c.ResourceVersion))
	}
	return c, err
}

// readVolume reads a volume as a container does: by its visible names, and through links. It may fail while the volume
// is being changed; the caller reads it again after the sync.
func readVolume(dir string) (volume.Payload, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := volume.Payload{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		// WalkDir does not follow a link that is its root.
		top, err := filepath.EvalSymlinks(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if err := readFiles(files, top, entry.Name()); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readFiles reads top, a file or folder, into files under the path name.
func readFiles(files volume.Payload, top, name string) error {
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[name+filepath.ToSlash(strings.TrimPrefix(path, top))] = volume.File{Data: data, Mode: int32(info.Mode())}
		return nil
	})
}

// volumeOf returns a volume of a pod by name. If there is none, it returns a volume of no kind, which cannot be built.
func volumeOf(pod *corev1.Pod, name string) *corev1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return &corev1.Volume{Name: name}
}

// path returns the folder of a volume.
func (d *demo) path(pod *corev1.Pod, name string) string {
	return filepath.Join(d.root, shortPath(pod.UID, name))
}

// shortPath returns the folder of a volume relative to the root folder, which the demo prints once.
func shortPath(uid types.UID, name string) string {
	return filepath.Join("pods", string(uid), "volumes", name)
}
