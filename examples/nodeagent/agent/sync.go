// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/nodeagent/volume"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// errNotInMemory is the cause of the ended context with which a sync gets objects. It is part of the status of a volume
// whose objects have not been read yet.
var errNotInMemory = errors.New("not in memory yet, and a sync does not wait")

// gracePeriod is how long an object may stay unread before an error is logged. A reachable server answers within
// milliseconds.
const gracePeriod = 2 * time.Second

// maxConflicts bounds the Conflicts of a status: a pod can have thousands of items.
const maxConflicts = 10

// work syncs pods until the queue is shut down. The queue never gives one UID to two workers.
func (a *Agent) work(ctx context.Context) {
	for {
		uid, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if err := a.sync(ctx, uid); err != nil {
			a.queue.AddRateLimited(uid)
		} else {
			a.queue.Forget(uid)
		}
		a.queue.Done(uid)
	}
}

// sync writes or removes the volumes of a pod. It returns the joined errors, which it has logged.
func (a *Agent) sync(ctx context.Context, uid types.UID) error {
	pod := a.pod(uid)
	if pod == nil {
		return a.removePod(ctx, uid)
	}
	// Do not wait for an object that is not in memory: many such pods would occupy all workers. Get returns at once
	// when its context has ended. The pod is synced again when the object arrives, and after its back-off.
	memory, cancel := context.WithCancelCause(ctx)
	cancel(errNotInMemory)
	var volumes []VolumeStatus
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; volume.Handles(v) {
			volumes = append(volumes, a.syncVolume(memory, pod, v))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err() // the agent stops, which caused any errors
	}
	return a.report(ctx, PodStatus{UID: uid, Namespace: pod.Namespace, Name: pod.Name, Volumes: volumes})
}

// syncVolume writes one volume and returns its status. ctx has ended: only objects in memory are used.
func (a *Agent) syncVolume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) VolumeStatus {
	status := VolumeStatus{Name: v.Name, Path: a.tree.Path(pod.UID, v.Name)}
	built, err := volume.BuildAllowed(ctx, pod, v, getter{a.secrets, a.configMaps, a.tokens})
	if err != nil {
		status.Err = err
		return status
	}
	var kept []error
	for _, l := range built.LeftOut {
		// Do not remove a token that was written before: the pod uses it.
		if token, ok := a.tree.Token(pod.UID, v.Name, l.Path); ok {
			built.Payload[l.Path] = token
			kept = append(kept, l)
		} else {
			status.LeftOut = append(status.LeftOut, l.Error())
		}
	}
	for _, conflict := range built.Conflicts[:min(maxConflicts, len(built.Conflicts))] {
		status.Conflicts = append(status.Conflicts, conflict.String())
	}
	status.Files = len(built.Payload)
	if a.tmpfs != nil && volume.Secret(v) {
		status.changed, err = a.tree.WriteInMemory(pod.UID, v.Name, built.Payload, *a.tmpfs)
	} else {
		status.changed, err = a.tree.Write(pod.UID, v.Name, built.Payload)
	}
	status.written = err == nil
	status.Err = errors.Join(append(kept, err)...)
	return status
}

// removePod removes the folder, the tokens and the status of a pod that was deleted or has ended.
func (a *Agent) removePod(ctx context.Context, uid types.UID) error {
	a.tokens.forget(uid)
	err := a.tree.Remove(uid)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot remove the folder of a deleted or ended pod; will retry", "podUID", uid)
		return err
	}
	klog.FromContext(ctx).V(2).Info("Removed the folder of a deleted or ended pod", "podUID", uid)
	a.status.remove(uid)
	return nil
}

// report sets the status of a pod and logs its changes. It returns the joined errors of the volumes.
func (a *Agent) report(ctx context.Context, status PodStatus) error {
	logger := klog.FromContext(ctx).WithValues("pod", klog.KRef(status.Namespace, status.Name), "podUID", status.UID)
	before := a.status.get(status.UID)
	var errs []error
	for i := range status.Volumes {
		v := &status.Volumes[i]
		v.log(logger.WithValues("volume", v.Name), before.volume(v.Name))
		if v.Err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", v.Name, v.Err))
		}
	}
	a.status.set(status)
	if status.settled() {
		a.setReady(status.UID)
	}
	return errors.Join(errs...)
}

// log logs the changes since before. At the default verbosity it logs an error once, and not while the error may still
// mean that the first read is under way.
func (s *VolumeStatus) log(logger logr.Logger, before VolumeStatus) {
	if s.written {
		s.logWritten(logger, before)
	} else {
		s.LeftOut, s.Conflicts = before.LeftOut, before.Conflicts // the files on disk are those before
	}
	if s.Err == nil {
		return
	}
	s.since, s.logged = time.Now(), before.logged
	if before.Err != nil {
		s.since = before.since
	}
	s.Pending = (errors.Is(s.Err, objectcache.ErrNotSynced) || errors.Is(s.Err, errTokenPending)) && time.Since(s.since) < gracePeriod
	message := "Cannot write the volume, files are unchanged; will retry"
	if s.written {
		message = "Cannot renew tokens of the volume, the last ones stay; will retry"
	}
	if text := s.Err.Error(); !s.Pending && s.logged != text {
		s.logged = text
		logger.Error(s.Err, message)
		return
	}
	logger.V(4).Info("Cannot write the volume yet", "err", s.Err)
}

// logWritten logs that the volume was written. It logs the tokens that are left out, and the sources with a path in
// common, when they change.
func (s *VolumeStatus) logWritten(logger logr.Logger, before VolumeStatus) {
	if len(s.LeftOut) > 0 && !slices.Equal(s.LeftOut, before.LeftOut) {
		logger.Info("Wrote the volume without forbidden tokens", "leftOut", s.LeftOut)
	}
	if len(s.Conflicts) > 0 && !slices.Equal(s.Conflicts, before.Conflicts) {
		logger.Info("Sources of the volume have a path in common: the later source has the file", "conflicts", s.Conflicts)
	}
	if s.changed {
		logger.V(2).Info("Wrote the volume", "files", s.Files)
	} else {
		logger.V(4).Info("The volume is up to date", "files", s.Files)
	}
}

// getter is the [volume.Getter] of the agent: the two managers, and tokens.
type getter struct {
	secrets    *manager.Manager[*corev1.Secret]
	configMaps *manager.Manager[*corev1.ConfigMap]
	tokens     *tokens
}

func (g getter) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return g.secrets.Get(ctx, namespace, name)
}

func (g getter) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return g.configMaps.Get(ctx, namespace, name)
}

func (g getter) Token(_ context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) (string, error) {
	return g.tokens.get(pod, projection)
}
