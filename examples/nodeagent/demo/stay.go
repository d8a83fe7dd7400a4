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

// stay keeps server and agent up until ctx ends, says what one can do by hand, and tells what comes of it. The
// files for that are in the temporary folder, and go with it; the kubeconfig has a token that is good only for
// this server.
func (d *demo) stay(ctx context.Context) error {
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
	// Not secret: it says what is wanted, and a pod names its secrets without their content.
	if err := os.WriteFile(manifest, data, 0o644); err != nil {
		return err
	}
	d.say(`
Server and agent stay up until Ctrl-C. To go on by hand, in another terminal:

  export KUBECONFIG=%[1]s
  kubectl -n %[2]s get pods,secrets,configmaps
  kubectl -n %[2]s patch secret tls -p '{"stringData":{"tls.key":"by hand"}}'
  cat %[3]s
  kubectl create --validate=false -f %[4]s     # a pod whose secret is missing
  kubectl -n %[2]s create secret generic answer --from-literal=answer=42
  kubectl -n %[2]s delete pod mine

What the agent makes of it:
`, kubeconfig, namespace, filepath.Join(d.path(d.pods["web-1"], "tls"), "tls.key"), manifest)
	return d.narrate(ctx)
}

// narrate prints what is new after each sync, until ctx ends or the agent does. Of several syncs in quick
// succession it may tell only the last, for the status holds the newest state and no history.
func (d *demo) narrate(ctx context.Context) error {
	told := d.states()
	for {
		// The channel comes first: a sync while states are compared is not missed.
		changed := d.agent.Changed()
		now := d.states()
		for _, key := range slices.Sorted(maps.Keys(now)) {
			if told[key] != now[key] {
				d.news(key, now[key].text)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(told)) {
			if _, ok := now[key]; !ok {
				d.news(key, "removed")
			}
		}
		told = now
		select {
		case <-changed:
		case <-d.agent.done:
			return errors.Join(errors.New("the agent has stopped"), d.agent.err)
		case <-ctx.Done():
			return nil
		}
	}
}

// state is what narrate tells of a volume: something new if the text or the version on disk is.
type state struct{ text, version string }

// states returns the state of every volume that the agent has looked at, by "pod: path".
func (d *demo) states() map[string]state {
	states := map[string]state{}
	for uid, pod := range d.agent.Status() {
		for _, v := range pod.Volumes {
			s := state{text: count(v.Files, "file")}
			if v.Err != nil {
				s.text = v.Err.Error()
			}
			// No link is no version: the volume was never written.
			s.version, _ = os.Readlink(filepath.Join(v.Path, "..data"))
			states[pod.Name+": "+shortPath(uid, v.Name)] = s
		}
	}
	return states
}

// news tells what is new of a volume.
func (d *demo) news(key, text string) {
	d.say("  %s  %s: %s\n", time.Now().Format(time.TimeOnly), key, text)
}
