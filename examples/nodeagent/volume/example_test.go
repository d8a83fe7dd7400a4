// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// oneSecret returns the same Secret for every name. A real Getter uses refwatch's managers.
type oneSecret struct{ secret *corev1.Secret }

func (o oneSecret) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return o.secret, nil
}

func (o oneSecret) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return nil, nil
}

// Build a volume from its Secret and write it. Writing the same payload again changes nothing.
func Example() {
	root, err := os.MkdirTemp("", "volume-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root) //nolint:errcheck // a temporary folder, in an example
	tree, err := volume.Open(root)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tree.Close() //nolint:errcheck // nothing is written through it

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-1"}}
	tls := &corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "tls", DefaultMode: new(int32(0o400)),
	}}}
	getter := oneSecret{&corev1.Secret{Data: map[string][]byte{"tls.key": []byte("made up")}}}

	payload, err := volume.Build(context.Background(), pod, tls, getter)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		changed, err := tree.Write(pod.UID, "tls", payload)
		fmt.Println("changed:", changed, "error:", err)
	}
	link, _ := os.Readlink(filepath.Join(tree.Path(pod.UID, "tls"), "tls.key"))
	data, _ := os.ReadFile(filepath.Join(tree.Path(pod.UID, "tls"), "tls.key"))
	fmt.Println("tls.key ->", link, "holds", string(data))
	fmt.Println("removed:", tree.Remove(pod.UID) == nil)
	// Output:
	// changed: true error: <nil>
	// changed: false error: <nil>
	// tls.key -> ..data/tls.key holds made up
	// removed: true
}
