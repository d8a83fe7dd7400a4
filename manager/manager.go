// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// Manager registers owners and adds the references that they declare to a store.
// Make one with [NewSecrets], [NewConfigMaps] or [New].
type Manager[T cache.Object] struct {
	store            objectcache.Store[T]
	visitPod         VisitPodFunc
	runLogger        atomic.Pointer[klog.Logger] // nil before Run
	loggedNoVisitPod sync.Once

	mu      sync.Mutex
	owners  registrations
	policy  ReferencePolicy // nil: each reference counts. Called with mu held, in the order of the store's counts
	denials []denial        // that unlock logs
}

// New returns a manager that adds references to a store. visitPod visits the objects
// that a pod names: pass [VisitPodSecretNames], [VisitPodConfigMapNames] or a
// function of your own. It may be nil if RegisterPod is not called. New returns an
// error if the store is nil.
func New[T cache.Object](store objectcache.Store[T], visitPod VisitPodFunc) (*Manager[T], error) {
	if value := reflect.ValueOf(store); store == nil || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, errors.New("new manager: the store is nil: make one with objectcache.NewWatchStore")
	}
	return &Manager[T]{store: store, visitPod: visitPod, owners: newRegistrations()}, nil
}

// NewSecrets returns a manager of the Secrets that pods reference. The type of options
// selects how the objects are read: with [objectcache.WatchOptions], or nil, each has a
// list-and-watch of its own; with [objectcache.TTLOptions] it is read when a Get needs
// it, and with [objectcache.DirectOptions] for each Get. The errors are those of
// [objectcache.NewStore]. For a transform or a selector, pass a store of your own to [New]:
//
//	store, err := objectcache.NewStore(resource.Secrets(client).WithTransform(f), options)
//	secrets, err := manager.New(store, manager.VisitPodSecretNames)
func NewSecrets(client kubernetes.Interface, options objectcache.StoreOptions) (*Manager[*corev1.Secret], error) {
	store, err := objectcache.NewStore(resource.Secrets(client), options)
	if err != nil {
		return nil, fmt.Errorf("new manager of Secrets: %w", err)
	}
	return New(store, VisitPodSecretNames)
}

// NewConfigMaps returns a manager of the ConfigMaps that pods reference. Options and
// errors are those of [NewSecrets].
func NewConfigMaps(client kubernetes.Interface, options objectcache.StoreOptions) (*Manager[*corev1.ConfigMap], error) {
	store, err := objectcache.NewStore(resource.ConfigMaps(client), options)
	if err != nil {
		return nil, fmt.Errorf("new manager of ConfigMaps: %w", err)
	}
	return New(store, VisitPodConfigMapNames)
}

// Run runs the store. It blocks until ctx ends and every goroutine of the store
// has ended, and returns the error of the store, if any. For a nil context it
// returns [objectcache.ErrNilContext]. The manager logs to the logger of ctx, and
// to klog's before Run.
func (m *Manager[T]) Run(ctx context.Context) error {
	if ctx == nil {
		return objectcache.ErrNilContext
	}
	logger := klog.FromContext(ctx)
	m.runLogger.CompareAndSwap(nil, &logger)
	return m.store.Run(ctx)
}

// logger returns the logger of Run's context, or klog's before Run.
func (m *Manager[T]) logger() klog.Logger {
	if logger := m.runLogger.Load(); logger != nil {
		return *logger
	}
	return klog.Background()
}
