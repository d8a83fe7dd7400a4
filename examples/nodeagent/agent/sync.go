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

// errNotWaited is the cause of the ended context that a sync reads objects with, and so part of the status of
// a volume whose objects are not known yet.
var errNotWaited = errors.New("a sync does not wait")

// patience is how long an object may stay unknown before that is logged as an error. A server that is there
// answers within milliseconds.
const patience = 2 * time.Second

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

// sync makes what is on disk for a pod equal to what there should be. The error joins what went wrong; it
// has been reported.
func (a *Agent) sync(ctx context.Context, uid types.UID) error {
	pod := a.pod(uid)
	if pod == nil {
		return a.removePod(ctx, uid)
	}
	// An object that is not in memory is not waited for: that would occupy a worker, and many such pods would
	// hold up all others. Get answers at once when its context has ended. The pod is synced again when the
	// object comes, and by its place in the back-off.
	memory, cancel := context.WithCancelCause(ctx)
	cancel(errNotWaited)
	var volumes []VolumeStatus
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; volume.Handles(v) {
			volumes = append(volumes, a.syncVolume(memory, pod, v))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err() // The agent stops: what failed now failed because of that.
	}
	return a.report(ctx, PodStatus{UID: uid, Namespace: pod.Namespace, Name: pod.Name, Volumes: volumes})
}

// syncVolume writes one volume, and returns how that went. ctx has ended: only what is in memory counts.
func (a *Agent) syncVolume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) VolumeStatus {
	status := VolumeStatus{Name: v.Name, Path: a.tree.Path(pod.UID, v.Name)}
	payload, leftOut, err := volume.BuildAllowed(ctx, pod, v, objects{a.secrets, a.configMaps, a.tokens})
	for _, l := range leftOut {
		// A token that is there, from before a restart, is not taken from a pod that runs.
		if a.tree.Has(pod.UID, v.Name, l.Path) {
			err = errors.Join(err, l)
		}
		status.LeftOut = append(status.LeftOut, l.Error())
	}
	if err == nil {
		status.Files = len(payload)
		status.changed, err = a.tree.Write(pod.UID, v.Name, payload)
	}
	status.Err = err
	return status
}

// removePod removes what is left of a pod that is gone.
func (a *Agent) removePod(ctx context.Context, uid types.UID) error {
	a.tokens.forget(uid)
	err := a.tree.Remove(uid)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The folder of a pod that is gone cannot be removed", "podUID", uid)
		return err
	}
	klog.FromContext(ctx).V(2).Info("The folder of a pod that is gone was removed", "podUID", uid)
	a.status.remove(uid)
	return nil
}

// report publishes the status of a pod and logs what is new in it. The error joins those of its volumes.
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
	return errors.Join(errs...)
}

// log logs what is new against the status before. A failure that goes on is not logged again at the usual
// verbosity, and an object that has only just been asked for is no failure yet.
func (s *VolumeStatus) log(logger logr.Logger, before VolumeStatus) {
	if s.Err == nil {
		if len(s.LeftOut) > 0 && !slices.Equal(s.LeftOut, before.LeftOut) {
			logger.Info("Volume has no file for what this agent may not have", "leftOut", s.LeftOut)
		}
		if s.changed {
			logger.V(2).Info("Volume written", "files", s.Files)
		} else {
			logger.V(4).Info("Volume is up to date", "files", s.Files)
		}
		return
	}
	s.since, s.logged = time.Now(), before.logged
	if before.Err != nil {
		s.since = before.since
	}
	patient := (errors.Is(s.Err, objectcache.ErrNotSynced) || errors.Is(s.Err, errTokenPending)) && time.Since(s.since) < patience
	if text := s.Err.Error(); !patient && s.logged != text {
		s.logged = text
		logger.Error(s.Err, "Volume cannot be written; it stays as it was and is tried again")
		return
	}
	logger.V(4).Info("Volume still cannot be written", "err", s.Err)
}

// objects is what volumes are built from: the two managers, and tokens.
type objects struct {
	secrets    *manager.Manager[*corev1.Secret]
	configMaps *manager.Manager[*corev1.ConfigMap]
	tokens     *tokens
}

func (o objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return o.secrets.Get(ctx, namespace, name)
}

func (o objects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return o.configMaps.Get(ctx, namespace, name)
}

func (o objects) Token(_ context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) (string, error) {
	return o.tokens.get(pod, projection)
}
