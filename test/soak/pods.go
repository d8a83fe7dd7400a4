// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/test/history"
)

const (
	// objectsPerCohort is how many objects a cohort references: as many Secrets as ConfigMaps.
	objectsPerCohort = 20
	// immutablePerCohort is how many of them are immutable.
	immutablePerCohort = 2
	// podsPerCohort is how many pods reference each object of a cohort.
	podsPerCohort = 5
	// getTimeout bounds a Get that follows a registration. During an outage it is too short.
	getTimeout = 5 * time.Second
)

// cohort is a group of pods that reference the same objects, so that these lose their last reference when all its pods
// are unregistered.
type cohort struct {
	mu      sync.Mutex // held during a change of the pods
	objects []*object
	pods    []*pod
}

// pod is a pod, and what it references.
type pod struct {
	name    string
	uid     types.UID
	objects []*object // empty if it is not registered
}

// spec returns the pod with its references: Secrets in volumes, ConfigMaps in the environment of a container.
func (s *soak) spec(p *pod) *corev1.Pod {
	spec := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.server.Namespace, Name: p.name, UID: p.uid}}
	container := corev1.Container{Name: "main"}
	for _, o := range p.objects {
		if o.kind == s.secrets {
			source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: o.name}}
			spec.Spec.Volumes = append(spec.Spec.Volumes, corev1.Volume{Name: o.name, VolumeSource: source})
			continue
		}
		reference := corev1.LocalObjectReference{Name: o.name}
		container.EnvFrom = append(container.EnvFrom,
			corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference}})
	}
	spec.Spec.Containers = []corev1.Container{container}
	return spec
}

// set registers a pod with references to other objects than before. Without objects it unregisters the pod.
func (s *soak) set(p *pod, objects ...*object) {
	begun := map[kind][]history.Call{}
	for _, o := range objects {
		if !slices.Contains(p.objects, o) {
			begun[o.kind] = append(begun[o.kind], o.BeginReference(string(p.uid)))
			o.references.Add(1)
		}
	}
	for _, o := range p.objects {
		if !slices.Contains(objects, o) {
			begun[o.kind] = append(begun[o.kind], o.BeginRelease(string(p.uid)))
			o.references.Add(-1)
		}
	}
	p.objects = objects
	spec := s.spec(p)
	for _, k := range s.kinds {
		if len(objects) > 0 {
			k.register(spec)
		} else {
			k.unregister(spec)
		}
		for _, call := range begun[k] {
			call.End()
		}
	}
}

// register registers the pods of all cohorts with the objects of their cohorts, and replaces one pod of each: an
// immutable object is read again for a new owner.
func (s *soak) register() {
	for _, c := range s.cohorts {
		c.register(s)
		s.replace(c.pods[0], c.objects...)
	}
}

func (c *cohort) register(s *soak) {
	for _, p := range c.pods {
		s.set(p, c.objects...)
	}
}

func (c *cohort) unregister(s *soak) {
	for _, p := range c.pods {
		s.set(p)
	}
}

// replace replaces a pod by one with the same name and another UID.
func (s *soak) replace(p *pod, objects ...*object) {
	s.set(p)
	p.uid = types.UID(fmt.Sprint(p.name, "-", s.uids.Add(1)))
	s.set(p, objects...)
}

// churn changes the pods of random cohorts until ctx ends.
func (s *soak) churn(ctx context.Context, random *rand.Rand) error {
	return s.repeat(ctx, s.options.Churn/churners, func() error {
		s.change(ctx, random, s.cohorts[random.IntN(len(s.cohorts))], random.IntN(3))
		return nil
	})
}

// churnGently is like churn, but of every other cohort it only replaces pods.
func (s *soak) churnGently(ctx context.Context, random *rand.Rand) error {
	return s.repeat(ctx, s.options.Churn/churners, func() error {
		i, change := random.IntN(len(s.cohorts)), random.IntN(3)
		if i%2 == 1 {
			change = 0
		}
		s.change(ctx, random, s.cohorts[i], change)
		return nil
	})
}

// change changes the pods of a cohort in one of three ways.
func (s *soak) change(ctx context.Context, random *rand.Rand, c *cohort, how int) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	s.replaced.Add(1)
	p := c.pods[random.IntN(len(c.pods))]
	switch how {
	case 0:
		s.replace(p, c.objects...)
	case 1: // update: some references go, and one to an object of another cohort comes
		other := s.objects[random.IntN(len(s.objects))]
		kept := slices.Clone(c.objects[random.IntN(len(c.objects)):])
		if !slices.Contains(kept, other) {
			kept = append(kept, other)
		}
		s.set(p, kept...)
	case 2: // all streams of the cohort end, and others open
		c.unregister(s)
		switch n := random.IntN(20); {
		case n == 0: // a request or a stream is too late now
			pause(ctx, released+time.Second)
		case n < 10:
			pause(ctx, time.Duration(random.IntN(100))*time.Millisecond)
		}
		c.register(s)
		s.getAll(ctx, c.objects)
	}
}

// getAll gets objects after their first references.
func (s *soak) getAll(ctx context.Context, objects []*object) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	for _, o := range objects {
		get := o.BeginGet(ctx)
		get.Return(o.kind.get(ctx, o.name))
	}
}
