// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// onSync returns a check that calls look after every sync of the agent until look succeeds. It does not poll.
func (d *demo) onSync(look func(context.Context) (string, error)) steps.Check {
	return func(ctx context.Context) (string, error) {
		for {
			// Take the channel first: a sync during look is not missed.
			changed := d.agent.Changed()
			seen, err := look(ctx)
			if err == nil {
				return seen, nil
			}
			select {
			case <-changed:
			case <-d.agent.done:
				return "", errors.Join(errors.New("the agent has stopped"), d.agent.err)
			case <-ctx.Done():
				return "", fmt.Errorf("%w; last error: %w", context.Cause(ctx), err)
			}
		}
	}
}

// written checks that the files of a volume match the server's objects.
func (d *demo) written(pod, name string) steps.Check {
	return d.onSync(func(ctx context.Context) (string, error) {
		p := d.pods[pod]
		want, from, err := d.expect(ctx, p, volumeOf(p, name))
		if err != nil {
			return "", err
		}
		if err := d.compare(p, name, want); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s has %s (%s)", pod, shortPath(p.UID, name), count(len(want), "file"), from), nil
	})
}

// waiting checks that a volume that cannot be built is reported with its cause, and is not on disk.
func (d *demo) waiting(pod, name, cause string) steps.Check {
	return d.onSync(func(context.Context) (string, error) {
		p := d.pods[pod]
		reported, err := d.reported(p, name, cause)
		if err != nil {
			return "", err
		}
		if _, err := os.Lstat(d.path(p, name)); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: %s exists, want none yet", pod, shortPath(p.UID, name))
		}
		return fmt.Sprintf("%s: %s does not exist yet; reported: %s", pod, shortPath(p.UID, name), reported), nil
	})
}

// kept checks that a volume that can no longer be built is reported with its cause, and keeps its files.
func (d *demo) kept(pod, name, cause string, files volume.Payload) steps.Check {
	return d.onSync(func(context.Context) (string, error) {
		p := d.pods[pod]
		reported, err := d.reported(p, name, cause)
		if err != nil {
			return "", err
		}
		if err := d.compare(p, name, files); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s keeps %s; reported: %s", pod, shortPath(p.UID, name), count(len(files), "file"), reported), nil
	})
}

// reported returns the error that the agent reports for a volume. It fails if the error does not contain cause.
func (d *demo) reported(pod *corev1.Pod, name, cause string) (string, error) {
	err := failure(d.agent.Status()[pod.UID], name)
	switch {
	case err == nil:
		return "", fmt.Errorf("%s: volume %s: the agent reports no error, want %s", pod.Name, name, cause)
	case !strings.Contains(err.Error(), cause):
		return "", fmt.Errorf("%s: volume %s: want %s, the agent reports: %w", pod.Name, name, cause, err)
	}
	return err.Error(), nil
}

// gone checks that the folder of a pod is removed.
func (d *demo) gone(pod string) steps.Check {
	return d.onSync(func(context.Context) (string, error) {
		uid := d.pods[pod].UID
		if _, err := os.Lstat(filepath.Join(d.root, "pods", string(uid))); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: pods/%s is still there", pod, uid)
		}
		return fmt.Sprintf("%s: pods/%s is removed", pod, uid), nil
	})
}

// everything checks all pods of the node: each volume matches the server's objects or is reported, and there is exactly
// one folder for each pod.
func (d *demo) everything() steps.Check {
	return d.onSync(func(ctx context.Context) (string, error) {
		pods, err := d.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + d.node})
		if err != nil {
			return "", err
		}
		written, reported := 0, 0
		for i := range pods.Items {
			for j := range pods.Items[i].Spec.Volumes {
				built, err := d.checkVolume(ctx, &pods.Items[i], &pods.Items[i].Spec.Volumes[j])
				switch {
				case err != nil:
					return "", err
				case built:
					written++
				default:
					reported++
				}
			}
		}
		entries, err := os.ReadDir(filepath.Join(d.root, "pods"))
		if err != nil {
			return "", err
		}
		if len(entries) != len(pods.Items) {
			return "", fmt.Errorf("%s for %s", count(len(entries), "folder"), count(len(pods.Items), "pod"))
		}
		return fmt.Sprintf("all: %s of %s match the server, %d reported as not built",
			count(written, "volume"), count(len(pods.Items), "pod"), reported), nil
	})
}

// checkVolume reports whether a volume can be built from the server's objects. It fails unless the agent agrees: with
// the right files and no error, or with an error.
func (d *demo) checkVolume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (built bool, err error) {
	want, _, buildErr := d.expect(ctx, pod, v)
	reported := failure(d.agent.Status()[pod.UID], v.Name)
	switch {
	case buildErr == nil && reported == nil:
		return true, d.compare(pod, v.Name, want)
	case buildErr == nil:
		return false, fmt.Errorf("%s: volume %s: the server has all objects, but the agent reports: %w", pod.Name, v.Name, reported)
	case reported == nil:
		return false, fmt.Errorf("%s: volume %s: the agent reports no error, but the server returns: %w", pod.Name, v.Name, buildErr)
	}
	return false, nil
}

// streams checks how many watches of one object are open on the server. It waits: the server notices a closed watch a
// moment later. note is appended to the line.
func (d *demo) streams(resource, name string, want int, note string) steps.Check {
	return func(ctx context.Context) (string, error) {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		err := d.server.WaitFor(ctx, func() bool { return d.server.OpenStreams(resource, key) == want })
		return fmt.Sprintf("server: open watches of %s %q: %d%s", resource, name, want, note), err
	}
}

// noStreams checks that the server has no open watch.
func (d *demo) noStreams() steps.Check {
	return func(ctx context.Context) (string, error) {
		err := d.server.WaitFor(ctx, func() bool { return d.server.TotalStreams() == 0 })
		return "server: no watch is open", err
	}
}

// notRequested checks that no request has ever read an object, by name or in a list. The demo's own create request does
// not count: it has the name in its body.
func (d *demo) notRequested(resource, name string) steps.Check {
	return func(context.Context) (string, error) {
		for _, request := range d.server.Requests() {
			all := request.Name == "" && (request.Verb == "list" || request.Verb == "watch")
			if request.Resource == resource && (request.Name == name || all) {
				return "", fmt.Errorf("the server got a %s of %s %q, which no pod of the node references", request.Verb, resource, request.Name)
			}
		}
		return fmt.Sprintf("server: no request for %s %q, which a pod of another node references", resource, name), nil
	}
}

// failure returns the error of a volume's last sync, or nil.
func failure(status agent.PodStatus, name string) error {
	for _, v := range status.Volumes {
		if v.Name == name {
			return v.Err
		}
	}
	return fmt.Errorf("volume %s was not synced yet", name)
}

// count returns "1 file", "2 files" and so on.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
