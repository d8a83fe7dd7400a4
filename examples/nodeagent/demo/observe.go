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

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// onSync makes a fact of a look at the disk: it looks after every sync of the agent until look succeeds. A
// look that fails costs a few requests and file reads, and nothing in between: there is no poll.
func (d *demo) onSync(look func(context.Context) (string, error)) fact {
	return func(ctx context.Context) (string, error) {
		for {
			// The channel comes first: a sync while look is looking is not missed.
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
				return "", fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
			}
		}
	}
}

// written: the files of a volume are those that the server's objects ask for now.
func (d *demo) written(pod, name string) fact {
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

// waiting: a volume that cannot be built is reported with its cause, and is not on disk at all.
func (d *demo) waiting(pod, name, cause string) fact {
	return d.onSync(func(context.Context) (string, error) {
		p := d.pods[pod]
		reported, err := d.reported(p, name, cause)
		if err != nil {
			return "", err
		}
		if _, err := os.Lstat(d.path(p, name)); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: %s exists, and should not yet", pod, shortPath(p.UID, name))
		}
		return fmt.Sprintf("%s: %s is not there, for: %s", pod, shortPath(p.UID, name), reported), nil
	})
}

// kept: a volume that cannot be built any more is reported with its cause, and has the files it had.
func (d *demo) kept(pod, name, cause string, files volume.Payload) fact {
	return d.onSync(func(context.Context) (string, error) {
		p := d.pods[pod]
		reported, err := d.reported(p, name, cause)
		if err != nil {
			return "", err
		}
		if err := d.compare(p, name, files); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s keeps %s, reported: %s", pod, shortPath(p.UID, name), count(len(files), "file"), reported), nil
	})
}

// reported returns the error that the agent reports for a volume, or fails if it is not for that cause.
func (d *demo) reported(pod *corev1.Pod, name, cause string) (string, error) {
	err := failure(d.agent.Status()[pod.UID], name)
	switch {
	case err == nil:
		return "", fmt.Errorf("%s: volume %s: nothing is reported, want %s", pod.Name, name, cause)
	case !strings.Contains(err.Error(), cause):
		return "", fmt.Errorf("%s: volume %s: want %s, reported is: %w", pod.Name, name, cause, err)
	}
	return err.Error(), nil
}

// gone: nothing of a pod is on disk.
func (d *demo) gone(pod string) fact {
	return d.onSync(func(context.Context) (string, error) {
		uid := d.pods[pod].UID
		if _, err := os.Lstat(filepath.Join(d.root, "pods", string(uid))); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: pods/%s is still there", pod, uid)
		}
		return fmt.Sprintf("%s: pods/%s is removed", pod, uid), nil
	})
}

// everything: all volumes of all pods of the node are as the server's objects say, those that cannot be built
// are reported, and there is a folder for each pod and none more.
func (d *demo) everything() fact {
	return d.onSync(func(ctx context.Context) (string, error) {
		pods, err := d.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + d.node})
		if err != nil {
			return "", err
		}
		right, reported := 0, 0
		for i := range pods.Items {
			for j := range pods.Items[i].Spec.Volumes {
				built, err := d.checkVolume(ctx, &pods.Items[i], &pods.Items[i].Spec.Volumes[j])
				switch {
				case err != nil:
					return "", err
				case built:
					right++
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
		return fmt.Sprintf("all: %s of %s as the server has them, %d reported",
			count(right, "volume"), count(len(pods.Items), "pod"), reported), nil
	})
}

// checkVolume tells whether the server has all that a volume needs, and fails unless the agent has come to
// the same: the right files and no error, or an error.
func (d *demo) checkVolume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (built bool, err error) {
	want, _, buildErr := d.expect(ctx, pod, v)
	reported := failure(d.agent.Status()[pod.UID], v.Name)
	switch {
	case buildErr == nil && reported == nil:
		return true, d.compare(pod, v.Name, want)
	case buildErr == nil:
		return false, fmt.Errorf("%s: volume %s: the server has all, the agent reports: %w", pod.Name, v.Name, reported)
	case reported == nil:
		return false, fmt.Errorf("%s: volume %s: the agent reports nothing, the server gives: %w", pod.Name, v.Name, buildErr)
	}
	return false, nil
}

// streams: so many watches of one object are open, as the server counts them. why is added to the line. It
// waits, since a stream that is given up by the agent is noticed by the server a moment later.
func (d *demo) streams(resource, name string, want int, why string) fact {
	return func(ctx context.Context) (string, error) {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		err := d.server.WaitFor(ctx, func() bool { return d.server.OpenStreams(resource, key) == want })
		return fmt.Sprintf("server: open watches of %s %q: %d%s", resource, name, want, why), err
	}
}

// noStreams: the server has no watch of anything left.
func (d *demo) noStreams() fact {
	return func(ctx context.Context) (string, error) {
		err := d.server.WaitFor(ctx, func() bool { return d.server.TotalStreams() == 0 })
		return "server: no watch is open any more", err
	}
}

// neverAsked: no request has ever concerned an object, but for its creation by the story, which a request does
// not name: the name of what is to be created is in the body.
func (d *demo) neverAsked(resource, name string) fact {
	return func(context.Context) (string, error) {
		for _, request := range d.server.Requests() {
			whole := request.Name == "" && (request.Verb == "list" || request.Verb == "watch")
			if request.Resource == resource && (request.Name == name || whole) {
				return "", fmt.Errorf("the server got a %s of %s %q, which no pod of the node references", request.Verb, resource, request.Name)
			}
		}
		return fmt.Sprintf("server: never asked for %s %q, which a pod of another node references", resource, name), nil
	}
}

// failure returns what, by the last sync of a pod, keeps a volume from being up to date, or nil.
func failure(status agent.PodStatus, name string) error {
	for _, v := range status.Volumes {
		if v.Name == name {
			return v.Err
		}
	}
	return fmt.Errorf("volume %s was not looked at yet", name)
}

// count gives "1 file", "2 files".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
