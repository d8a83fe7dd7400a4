// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/model"
)

// operator is an operator of a pattern, as package model drives it. What it has made of the Secrets outlives its
// process, as what an operator writes does.
type operator struct {
	pattern   *pattern
	config    *rest.Config
	resources resources
	findings  findings
	stops     int
	outcomes  outcomes

	mu         sync.Mutex
	process    *process                             // nil while there is none
	registered map[types.NamespacedName][]types.UID // the custom resources that name a Secret
}

var _ model.Restarter = &operator{}

func newOperator(p *pattern, config *rest.Config) *operator {
	return &operator{
		pattern: p, config: config, resources: newResources(), registered: map[types.NamespacedName][]types.UID{},
		outcomes: outcomes{of: map[types.NamespacedName]*outcome{}},
	}
}

// Run implements model.Subject.
func (o *operator) Run(ctx context.Context) error {
	o.Start()
	<-ctx.Done()
	if !o.Started() {
		o.findings.add(errors.New("in the end the manager has not started"))
	}
	o.Stop()
	o.resources.Broadcaster.Shutdown()
	return o.findings.err()
}

// Start implements model.Restarter.
func (o *operator) Start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes.renew(nil)
	o.process = start(o)
}

// Started implements model.Restarter.
func (o *operator) Started() bool {
	o.mu.Lock()
	p := o.process
	o.mu.Unlock()
	return p.hasStarted()
}

// Stop implements model.Restarter.
func (o *operator) Stop() {
	o.mu.Lock()
	stopped := o.process
	o.process = nil
	o.mu.Unlock()
	stopped.stop()
	o.stops++
}

// returned is called when a manager has returned. It may do so by itself if the stock cache does not sync for two
// minutes; a supervisor then starts the operator again.
func (o *operator) returned(p *process, err error) {
	isStopped := p.hasEnded()
	if (err != nil || !isStopped) && !o.pattern.held {
		o.findings.add(fmt.Errorf("%v after its start the manager returned: %w", time.Since(p.began), err))
	}
	if isStopped {
		return
	}
	<-time.After(time.Second)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.process == p {
		p.cancel()
		o.process = start(o)
	}
}

// RegisterPod implements model.Subject: the pod is a custom resource.
func (o *operator) RegisterPod(pod *corev1.Pod) {
	manager.VisitPodSecretNames(pod, func(name string) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		o.mu.Lock()
		defer o.mu.Unlock()
		if !slices.Contains(o.registered[key], pod.UID) {
			o.registered[key] = append(o.registered[key], pod.UID)
			o.outcomes.renew(&key)
		}
	})
	o.resources.set(pod)
}

// UnregisterPod implements model.Subject. It is called when the schedule is over and the operator has ended: the last
// reconcile of each custom resource must have had the newest outcome.
func (o *operator) UnregisterPod(pod *corev1.Pod) {
	if !o.pattern.silent {
		o.findings.add(o.outcomes.check(pod.UID))
	}
}

func (o *operator) isRegistered(key types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.registered[key]) > 0
}

// Get implements model.Subject: it reads as another reconcile of the operator does.
func (o *operator) Get(ctx context.Context, namespace, name string) (metav1.Object, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	o.mu.Lock()
	p, registered := o.process, len(o.registered[key]) > 0
	o.mu.Unlock()
	switch {
	case !registered:
		return nil, fmt.Errorf("%w: no custom resource names %s", objectcache.ErrNotRegistered, key)
	case p == nil || p.client == nil: // it is stopped, or could not be built, which is a finding
		return nil, context.Canceled
	}
	object, err := o.pattern.read(ctx, p, key)
	switch {
	case err == nil:
		return object, nil
	case apierrors.IsNotFound(err), errors.Is(err, objectcache.ErrNotSynced):
		return nil, err
	case p.hasEnded(), errors.As(err, new(*cache.ErrCacheNotStarted)), // the process has not begun, or is over
		o.pattern.held && errors.Is(err, objectcache.ErrStopped): // by itself: see returned
		return nil, context.Canceled
	case o.pattern.live:
		return nil, fmt.Errorf("%w: %w", objectcache.ErrNotSynced, err)
	}
	return nil, err
}

// follower is an operator whose outcomes follow the Secrets.
type follower struct{ *operator }

// Follow implements model.Follower: it yields the outcomes of reconciles.
func (f follower) Follow(ctx context.Context, yield func(key types.NamespacedName, object metav1.Object, err error)) {
	next, stop := f.outcomes.follow()
	defer stop()
	for {
		key, r, ok := next(ctx)
		if !ok {
			return
		}
		yield(key, r.object, r.err)
	}
}
