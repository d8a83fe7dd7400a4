// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeletmanager "k8s.io/kubernetes/pkg/kubelet/util/manager"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

var _ kubeletmanager.Manager = (*Manager[*corev1.Secret])(nil)

// defaultTimeout is how long kubelet's watch-based manager waits (objectCache.Get in
// pkg/kubelet/util/manager/watch_based_manager.go).
const defaultTimeout = time.Second

// Options configures a manager. The zero value is valid.
type Options struct {
	// Timeout bounds how long a Get waits for the first sync of an object: kubelet's interfaces have no context.
	// Default: 1 s, as in kubelet.
	Timeout time.Duration
}

// Manager implements kubelet's util/manager.Manager for one kind of object.
type Manager[T cache.Object] struct {
	objects  *manager.Manager[T]
	resource schema.GroupResource
	timeout  time.Duration
}

// New returns a manager of the objects of another one, which it does not run. Its errors name the resource: pass the
// one that kubelet's errors name, in the singular. New returns an error if the manager is nil or the time-out is
// negative.
func New[T cache.Object](objects *manager.Manager[T], resource schema.GroupResource, options Options) (*Manager[T], error) {
	if objects == nil {
		return nil, errors.New("new kubelet manager: the manager is nil: make one with manager.NewSecrets or manager.New")
	}
	if options.Timeout < 0 {
		return nil, fmt.Errorf("new kubelet manager: Options.Timeout is %v: 0 means %v, else set a positive duration", options.Timeout, defaultTimeout)
	}
	return &Manager[T]{objects: objects, resource: resource, timeout: cmp.Or(options.Timeout, defaultTimeout)}, nil
}

// Run runs the manager that was passed to [New]: see [manager.Manager.Run].
func (m *Manager[T]) Run(ctx context.Context) error { return m.objects.Run(ctx) }

// GetObject returns an object that a registered pod names. If the object has not synced, GetObject waits, for
// Options.Timeout at most. If it returns an error, the object is nil, without a type.
//
// The texts of the errors are those of kubelet's watch-based manager:
//   - object "default"/"tls" not registered: it wraps objectcache.ErrNotRegistered.
//   - secret "tls" not found: apierrors.IsNotFound holds. If no object can have that name, the error also wraps
//     objectcache.ErrInvalidName.
//   - failed to sync secret cache: timed out waiting for the condition: it wraps the error of [manager.Manager.Get],
//     whose text follows.
//
// Any other error of the store, such as objectcache.ErrStopped, is wrapped with "failed to sync secret cache".
func (m *Manager[T]) GetObject(namespace, name string) (runtime.Object, error) {
	object, err := m.get(namespace, name)
	if err != nil {
		return nil, err
	}
	return object, nil
}

// RegisterPod implements kubelet's Manager: see [manager.Manager.RegisterPod].
func (m *Manager[T]) RegisterPod(pod *corev1.Pod) { m.objects.RegisterPod(pod) }

// UnregisterPod implements kubelet's Manager: see [manager.Manager.UnregisterPod].
func (m *Manager[T]) UnregisterPod(pod *corev1.Pod) { m.objects.UnregisterPod(pod) }

// get is GetObject with the object's type.
func (m *Manager[T]) get(namespace, name string) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	object, err := m.objects.Get(ctx, namespace, name)
	if err != nil {
		var none T
		return none, kubeletError(m.resource, namespace, name, err)
	}
	return object, nil
}

// watchOptions returns the options with which a store ends idle streams as kubelet's manager does: five
// resyncIntervals after the last Get, and at least a minute. The volume manager asks for what is mounted once in each
// resyncInterval, so the idle objects are those that only environment variables come from (NewWatchBasedManager in
// pkg/kubelet/util/manager/watch_based_manager.go).
func watchOptions(resyncInterval time.Duration, gate *objectcache.Gate) objectcache.WatchOptions {
	return objectcache.WatchOptions{IdleTimeout: max(5*resyncInterval, time.Minute), Gate: gate}
}
