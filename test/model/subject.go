// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

// Subject is the manager of one kind under test. A subject may also be a [Follower], a [Demander], a [Lister] or a
// [Restarter]; steps that need more than it has are left out.
type Subject interface {
	// Run runs the manager. It returns when ctx and all that it started have ended.
	Run(ctx context.Context) error
	RegisterPod(pod *corev1.Pod)
	UnregisterPod(pod *corev1.Pod)
	// Get returns an object that a registered pod references.
	Get(ctx context.Context, namespace, name string) (metav1.Object, error)
}

// Follower is a subject that reports changes.
type Follower interface {
	// Follow calls yield for each change, until ctx ends. The object is nil if err is not.
	Follow(ctx context.Context, yield func(key types.NamespacedName, object metav1.Object, err error))
}

// Demander is a subject with all forms of Get.
type Demander interface {
	TryGet(namespace, name string) (metav1.Object, error)
	GetWithOptions(ctx context.Context, namespace, name string, options objectcache.GetOptions) (metav1.Object, error)
}

// Lister is a subject that knows what is referenced.
type Lister interface {
	Statuses() iter.Seq[objectcache.Status]
}

// StatusReader is a subject that knows the status of each object.
type StatusReader interface {
	Status(namespace, name string) (objectcache.Status, bool)
}

// Restarter is a subject that can be restarted. What it holds in memory does not outlive that.
type Restarter interface {
	// Started reports whether it has started, so that it can be stopped. It may wait for that.
	Started() bool
	// Stop returns when all that Run started has ended.
	Stop()
	// Start starts it again.
	Start()
}

// newSubjects returns managers of this library, of the kinds in their order, that share one Gate and one client.
func (s *settings) newSubjects(_ context.Context, config *rest.Config, options objectcache.WatchOptions) ([]Subject, error) {
	if s.blocking {
		var err error
		if config, err = clients.NetHTTP(config); err != nil {
			return nil, err
		}
	}
	client, err := manager.ClientFor(config)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(resource.ConfigFor(config))
	if err != nil {
		return nil, err
	}
	options.Gate = objectcache.NewGate(objectcache.GateOptions{})
	secrets, err1 := subjectOf(s, resource.Secrets(client), options, manager.VisitPodSecretNames)
	configMaps, err2 := subjectOf(s, resource.ConfigMaps(client), options, manager.VisitPodConfigMapNames)
	kind := clients.Dynamic(dynamicClient, widgets)
	if s.restWidgets {
		kind = resource.FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](config, widgets)
	}
	custom, err3 := subjectOf(s, kind, options, visitWidgets)
	return []Subject{secrets, configMaps, custom}, errors.Join(err1, err2, err3)
}

// subjectOf returns a manager of the store that the settings ask for.
func subjectOf[T cache.Object](s *settings, kind resource.Resource[T], options objectcache.WatchOptions, visit manager.VisitPodFunc) (Subject, error) {
	if s.transforms {
		kind = kind.WithTransform(func(object T) T {
			s.transform(object)
			return object
		})
	}
	var of objectcache.StoreOptions = options
	switch {
	case s.direct:
		of = objectcache.DirectOptions{}
	case s.ttl > 0:
		of = objectcache.TTLOptions{TTL: s.ttl, Gate: options.Gate, MaxStaleness: options.MaxStaleness, OutageGrace: options.OutageGrace}
	}
	store, err := objectcache.NewStore(kind, of)
	if err != nil {
		return nil, err
	}
	m, err := manager.New(store, visit)
	if err != nil {
		return nil, err
	}
	switch {
	case s.direct: // it knows of no object
		return struct {
			Subject
			Demander
		}{subject[T]{m}, subject[T]{m}}, nil
	case s.ttl > 0: // it reads for Gets only: nobody can follow it
		return struct {
			Subject
			Demander
			Lister
		}{subject[T]{m}, subject[T]{m}, subject[T]{m}}, nil
	}
	return subject[T]{m}, nil
}

// visitWidgets visits the widgets that a pod of this package names.
func visitWidgets(pod *corev1.Pod, visit func(name string)) {
	for name := range strings.FieldsSeq(pod.Annotations[widgets.Resource]) {
		visit(name)
	}
}

// subject is a manager of this library.
type subject[T cache.Object] struct{ *manager.Manager[T] }

var _ interface {
	Subject
	Follower
	Demander
	Lister
} = subject[*corev1.Secret]{}

func (s subject[T]) Get(ctx context.Context, namespace, name string) (metav1.Object, error) {
	return s.Manager.Get(ctx, namespace, name)
}

func (s subject[T]) TryGet(namespace, name string) (metav1.Object, error) {
	return s.Manager.TryGet(namespace, name)
}

func (s subject[T]) GetWithOptions(ctx context.Context, namespace, name string, options objectcache.GetOptions) (metav1.Object, error) {
	return s.Manager.GetWithOptions(ctx, namespace, name, options)
}

func (s subject[T]) Follow(ctx context.Context, yield func(key types.NamespacedName, object metav1.Object, err error)) {
	for change := range s.Changes(ctx) {
		yield(change.Key, change.Object, change.Err)
	}
}
