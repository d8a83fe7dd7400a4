// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// interactive keeps server and agent running until ctx ends. It prints commands to try, and each change of a volume.
// The kubeconfig and the manifest are in the temporary folder. The kubeconfig's token is valid for this server only.
// url is that of the debug pages.
func (d *demo) interactive(ctx context.Context, url string) error {
	kubeconfig, manifest := filepath.Join(d.dir, "kubeconfig"), filepath.Join(d.dir, "mine.yaml")
	if err := d.server.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	mine := pod("mine", d.node, secretVolume("answer", "answer"))
	mine.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	data, err := yaml.Marshal(mine)
	if err != nil {
		return err
	}
	// Not secret: a pod names its Secrets, without their data.
	if err := os.WriteFile(manifest, data, 0o644); err != nil {
		return err
	}
	d.printf(`
Server and agent run until Ctrl-C. To try more, in another terminal:

  export KUBECONFIG=%[1]s
  kubectl -n %[2]s get pods,secrets,configmaps
  kubectl -n %[2]s patch secret tls -p '{"stringData":{"tls.key":"by hand"}}'
  cat %[3]s
  kubectl create --validate=false -f %[4]s     # a pod whose secret is missing
  kubectl -n %[2]s create secret generic answer --from-literal=answer=42
  kubectl -n %[2]s delete pod mine

Health checks, metrics and debug pages: %[5]s

Changes of volumes:
`, kubeconfig, namespace, filepath.Join(d.path(d.pods["web-1"], "tls"), "tls.key"), manifest, url)
	return d.printChanges(ctx)
}

// printChanges prints the volumes that changed after each sync, until ctx or the agent ends. Of several syncs in quick
// succession it may print only the last: the status holds no history.
func (d *demo) printChanges(ctx context.Context) error {
	printed := d.states()
	for {
		// Take the channel first: a sync during the comparison is not missed.
		changed := d.agent.Changed()
		now := d.states()
		for _, key := range slices.Sorted(maps.Keys(now)) {
			if printed[key] != now[key] {
				d.printChange(key, now[key].text)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(printed)) {
			if _, ok := now[key]; !ok {
				d.printChange(key, "removed")
			}
		}
		printed = now
		select {
		case <-changed:
		case <-d.agent.done:
			return errors.Join(errors.New("the agent has stopped"), d.agent.err)
		case <-ctx.Done():
			return nil
		}
	}
}

// state is the state of a volume. printChanges prints it when the text or the version on disk changes.
type state struct{ text, version string }

// states returns the state of every volume that was synced, by "pod: path". A volume that is read for the first time
// has none yet.
func (d *demo) states() map[string]state {
	states := map[string]state{}
	for uid, pod := range d.agent.Status() {
		for _, v := range pod.Volumes {
			if v.Pending {
				continue // what comes next is worth a line
			}
			s := state{text: count(v.Files, "file")}
			if v.Err != nil {
				s.text = v.Err.Error()
			}
			// Without a link the volume was never written: the version is empty.
			s.version, _ = os.Readlink(filepath.Join(v.Path, "..data"))
			states[pod.Name+": "+shortPath(uid, v.Name)] = s
		}
	}
	return states
}

// printChange prints the new state of a volume.
func (d *demo) printChange(key, text string) {
	d.printf("  %s  %s: %s\n", time.Now().Format(time.TimeOnly), key, text)
}
