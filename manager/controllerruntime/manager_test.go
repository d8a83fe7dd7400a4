// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// operator is an ordinary operator. Its custom resource is a ConfigMap, which names a
// Secret that it owns.
type operator struct {
	client client.Client
	seen   events
}

func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := &corev1.ConfigMap{}
	if err := o.client.Get(ctx, request.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	secret := &corev1.Secret{}
	err := o.client.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Data["secret"]}, secret)
	switch {
	case apierrors.IsNotFound(err):
		o.seen.add("%s: absent", owner.Name)
		return ctrl.Result{}, nil // an event will come
	case apierrors.IsForbidden(err):
		o.seen.add("%s: forbidden", owner.Name)
		return ctrl.Result{}, err
	case err != nil:
		o.seen.add("%s: error", owner.Name)
		return ctrl.Result{}, err
	}
	o.seen.add("%s: %s", owner.Name, secret.Data["value"])
	return ctrl.Result{}, nil
}

// managerRig is a ctrl.Manager with an operator, and the server, in one bubble.
type managerRig struct {
	*rig

	manager  manager.Manager
	operator *operator
}

// newManager returns a manager that is not started. newCache may be nil.
func newManager(t *testing.T, server *apiserver.Server, newCache cache.NewCacheFunc, owns ...builder.OwnsOption) *managerRig {
	t.Helper()
	return newManagerFor(t, server, newCache, nil, owns...)
}

// newManagerFor is newManager with options of For.
func newManagerFor(t *testing.T, server *apiserver.Server, newCache cache.NewCacheFunc, of []builder.ForOption, owns ...builder.OwnsOption) *managerRig {
	t.Helper()
	m, err := ctrl.NewManager(server.Config(), ctrl.Options{
		NewCache:   newCache,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{client: m.GetClient()}
	if err := ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}, of...).Owns(&corev1.Secret{}, owns...).Complete(o); err != nil {
		t.Fatal(err)
	}
	return &managerRig{&rig{t: t, server: server, client: server.Client(), cache: m.GetCache()}, m, o}
}

// withManager runs f in a bubble, with a manager that is running.
func withManager(t *testing.T, newCache cache.NewCacheFunc, f func(t *testing.T, r *managerRig), owns ...builder.OwnsOption) {
	t.Helper()
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		r := newManager(t, server, newCache, owns...)
		r.stop = start(t, r.manager)
		time.Sleep(time.Minute)
		f(t, r)
		r.stop()
	})
}

// addOwner creates a ConfigMap that names a Secret, and the Secret unless value is empty.
func (r *managerRig) addOwner(name, value string) {
	r.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"secret": name}}
	created, err := r.client.CoreV1().ConfigMaps(namespace).Create(r.t.Context(), owner, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if value != "" {
		r.writeOwned(created, value)
	}
	synctest.Wait()
}

// writeOwned creates or updates the Secret that an owner names and owns.
func (r *managerRig) writeOwned(owner *corev1.ConfigMap, value string) {
	r.t.Helper()
	secret := secretNamed(owner.Name, value)
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	secrets := r.client.CoreV1().Secrets(namespace)
	_, err := secrets.Create(r.t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(r.t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *managerRig) owner(name string) *corev1.ConfigMap {
	r.t.Helper()
	owner, err := r.client.CoreV1().ConfigMaps(namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return owner
}

// onlyNamed allows all but lists and watches of Secrets without a name.
func onlyNamed(request apiserver.Request) bool {
	return request.Resource != "secrets" || request.Name != "" || request.Verb == "create"
}

// An operator that owns Secrets works as before with one line changed, and needs no
// permission to list them. With the stock cache it needs that permission.
func TestOperatorWithOneLineChanged(t *testing.T) {
	tests := map[string]struct {
		newCache  cache.NewCacheFunc
		authorize func(apiserver.Request) bool
		named     bool // all requests for Secrets have a name
	}{
		"before": {nil, nil, false},
		"after":  {controllerruntime.NewCache(controllerruntime.CacheOptions{}), onlyNamed, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, server *apiserver.Server) {
				server.Authorize(test.authorize)
				r := newManager(t, server, test.newCache)
				r.create("unrelated", "x")
				r.stop = start(t, r.manager)
				time.Sleep(time.Minute)
				r.addOwner("one", "")
				r.operator.seen.want(t, "without a Secret", "one: absent")
				r.writeOwned(r.owner("one"), "1")
				r.operator.seen.want(t, "created", "one: 1")
				r.writeOwned(r.owner("one"), "2")
				r.operator.seen.want(t, "updated", "one: 2")
				r.remove("one")
				r.operator.seen.want(t, "deleted", "one: absent")
				r.stop()
				for _, request := range secretRequests(server) {
					if named := strings.Contains(request, " "); named != test.named {
						t.Errorf("got request %q, want a named one: %v", request, test.named)
					}
				}
			})
		})
	}
}

// prefixOperator is an operator of the ConfigMaps whose names have a prefix.
type prefixOperator struct {
	operator

	prefix string
}

func (b *prefixOperator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !strings.HasPrefix(request.Name, b.prefix) {
		return ctrl.Result{}, nil
	}
	return b.operator.Reconcile(ctx, request)
}

// A Secret that is forbidden, and one that the server does not answer for, hold up neither
// the start of the manager nor another controller, though each controller has one worker.
// Both are there before the manager starts.
func TestOtherControllersGoOn(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		server.Authorize(func(request apiserver.Request) bool { return onlyNamed(request) && request.Name != "a-forbidden" })
		r := newManager(t, server, controllerruntime.NewCache(controllerruntime.CacheOptions{}))
		release := r.hold("a-hanging")
		controllers := map[string]*prefixOperator{}
		for _, prefix := range []string{"a-", "b-"} {
			b := &prefixOperator{operator: operator{client: r.manager.GetClient()}, prefix: prefix}
			if err := ctrl.NewControllerManagedBy(r.manager).Named(prefix).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(b); err != nil {
				t.Fatal(err)
			}
			controllers[prefix] = b
		}
		r.addOwner("a-forbidden", "1")
		r.addOwner("a-hanging", "1")
		r.addOwner("b-good", "1")
		began := time.Now()
		r.stop = start(t, r.manager)
		time.Sleep(4 * time.Second) // less than SyncTimeout
		controllers["b-"].seen.wantEach(t, "4 s after the start", "b-good: 1")
		r.writeOwned(r.owner("b-good"), "2")
		controllers["b-"].seen.wantEach(t, "while a Get hangs", "b-good: 2")
		time.Sleep(time.Minute)
		controllers["a-"].seen.wantEach(t, "a minute after the start", "a-forbidden: forbidden", "a-hanging: error")
		server.Authorize(onlyNamed)
		release()
		time.Sleep(time.Minute)
		controllers["a-"].seen.wantEach(t, fmt.Sprintf("%v after the start", time.Since(began)), "a-forbidden: 1", "a-hanging: 1")
		r.stop()
	})
}
