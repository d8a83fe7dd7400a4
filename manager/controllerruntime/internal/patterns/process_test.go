// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// process is one process of an operator: a manager of controller-runtime with one controller.
type process struct {
	operator *operator
	manager  manager.Manager
	client   client.Client
	ctx      context.Context
	cancel   context.CancelFunc
	ended    chan struct{}
	began    time.Time
}

// start starts a process.
func start(o *operator) *process {
	p := &process{operator: o, ended: make(chan struct{}), began: time.Now()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.build(); err != nil {
		o.findings.add(fmt.Errorf("build the operator: %w", err))
		close(p.ended)
		return p
	}
	go func() {
		defer close(p.ended)
		o.returned(p, p.manager.Start(p.ctx))
	}()
	return p
}

// hasStarted waits a second for the start of the manager, and reports whether it has started. If it is stopped before,
// it waits for its caches in a loop, also if they never sync: controller-runtime has no end for that but the end of the
// program.
func (p *process) hasStarted() bool {
	if p.manager == nil {
		return true // it could not be built
	}
	select {
	case <-p.manager.Elected():
		return true
	case <-time.After(time.Second):
		return false
	}
}

// stop ends a process, and checks what must hold of it before.
func (p *process) stop() {
	if p.operator.pattern.silent && p.manager != nil {
		p.operator.findings.add(p.checkSilent())
	}
	p.cancel()
	<-p.ended
}

func (p *process) hasEnded() bool { return p.ctx.Err() != nil }

// build makes the manager, and a controller as the pattern says.
func (p *process) build() (err error) {
	pattern := p.operator.pattern
	reads := pattern.client // a copy, because NewManager changes it
	p.manager, err = ctrl.NewManager(p.operator.config, ctrl.Options{
		NewCache:       pattern.newCache(),
		NewClient:      pattern.newClient,
		Cache:          p.operator.resources.in(pattern.stock),
		Client:         client.Options{Cache: &reads},
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true)},
		MapperProvider: mapper,
	})
	if err != nil {
		return err
	}
	p.client = p.manager.GetClient()
	if err := p.manager.GetFieldIndexer().IndexField(p.ctx, &corev1.ConfigMap{}, field, index); err != nil {
		return err
	}
	if pattern.prepare != nil {
		if err := pattern.prepare(p); err != nil {
			return err
		}
	}
	b := ctrl.NewControllerManagedBy(p.manager).WithOptions(controller.Options{
		// At its end the priority queue of controller-runtime v0.24.1 may keep a goroutine, which sends to a
		// worker that has gone.
		UsePriorityQueue: new(false),
		RateLimiter:      workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 5*time.Second),
	})
	return pattern.watch(p, b).Complete(p)
}

// mapper knows the two kinds: operators ask the server.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	m := meta.NewDefaultRESTMapper(scheme.Scheme.PrioritizedVersionsAllGroups())
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return m, nil
}

// Reconcile implements reconcile.Reconciler: it acts on each Secret that a custom resource names.
func (p *process) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pattern := p.operator.pattern
	if pattern.ofSecrets { // the request names a Secret, perhaps one that no custom resource names
		if !p.operator.isRegistered(request.NamespacedName) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, p.act(ctx, request.NamespacedName, "")
	}
	owner := &corev1.ConfigMap{}
	if err := p.client.Get(ctx, request.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var failed []error
	for _, key := range secretsOf(owner) {
		failed = append(failed, p.act(ctx, key, owner.UID))
	}
	return ctrl.Result{RequeueAfter: pattern.poll}, errors.Join(failed...)
}

// act acts on one Secret.
func (p *process) act(ctx context.Context, key types.NamespacedName, by types.UID) error {
	pattern := p.operator.pattern
	act := pattern.act
	if act == nil {
		act = pattern.read
	}
	if pattern.live { // controller-runtime's client sets no time limit
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	object, err := act(ctx, p, key)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	r := result{object, err}
	if err != nil {
		r.object = nil
	}
	p.operator.outcomes.add(key, by, r)
	return nil
}

// silentAfter is how long a process runs until it must have noted that its handlers get no events.
const silentAfter = time.Minute + 5*time.Second

// checkSilent checks that a process whose handlers get no events has noted that.
func (p *process) checkSilent() error {
	store, err := p.manager.GetCache().(*controllerruntime.Cache).Store(&corev1.Secret{})
	if err != nil {
		return err
	}
	ran := time.Since(p.began)
	if got := len(store.Notes()); got == 0 && ran > silentAfter {
		return fmt.Errorf("handlers get no events: got no note %v after the start, want one", ran)
	}
	return nil
}
