// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// shop is an operator whose custom resource, for which ConfigMaps stand, names a Secret of its user. The user's Secret
// has no label, and may be created later. The Secrets that the operator makes have a label, by which the manager's
// cache selects them.
type shop struct {
	client    client.Client // of the manager
	byName    client.Client // for the Secrets of users
	reconcile func(name types.NamespacedName, value string)
}

func (s *shop) SetupWithManager(mgr ctrl.Manager) error {
	byName, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) { // a second cache and its client
		o.Scheme = mgr.GetScheme()
		o.NewCache = controllerruntime.NewCache(controllerruntime.CacheOptions{}) // Secrets by reference
		o.NewClient = controllerruntime.NewClient
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(byName); err != nil { // the manager starts it, on each replica
		return err
	}
	s.client, s.byName = mgr.GetClient(), byName.GetClient()
	err = mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, "secret", secretOf)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}). // those with the label
		WatchesRawSource(source.Kind(byName.GetCache(), &corev1.Secret{},
			handler.TypedEnqueueRequestsFromMapFunc(s.ownersOf))).
		Complete(s)
}

func (s *shop) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := &corev1.ConfigMap{}
	if err := s.client.Get(ctx, request.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	secret := &corev1.Secret{}
	err := s.byName.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Data["secret"]}, secret)
	if apierrors.IsNotFound(err) {
		s.reconcile(request.NamespacedName, "absent")
		return ctrl.Result{}, nil // its creation calls Reconcile
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	s.reconcile(request.NamespacedName, string(secret.Data["value"]))
	return ctrl.Result{}, nil
}

// ownersOf returns requests for the custom resources that name a Secret.
func (s *shop) ownersOf(ctx context.Context, secret *corev1.Secret) (requests []reconcile.Request) {
	owners := &corev1.ConfigMapList{}
	if err := s.client.List(ctx, owners, client.InNamespace(secret.Namespace), client.MatchingFields{"secret": secret.Name}); err != nil {
		return nil
	}
	for _, owner := range owners.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&owner)})
	}
	return requests
}

// secretOf is the index of custom resources by their Secret.
func secretOf(owner client.Object) []string {
	return []string{owner.(*corev1.ConfigMap).Data["secret"]}
}

// managerOfShop returns a manager whose cache holds the Secrets with the operator's label, as before.
func managerOfShop(options ctrl.Options) ctrl.Options {
	own := labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "shop"})
	options.Cache = cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: own}}}
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.Controller = config.Controller{SkipNameValidation: new(true)}
	return options
}

// A reconcile that has found no Secret of its user's is called when the Secret is created, though that has no label.
func Example_byName() {
	server := serverWithSecret()
	defer server.Close()
	mgr, err := ctrl.NewManager(server.Config(), managerOfShop(ctrl.Options{}))
	if err != nil {
		panic(err)
	}
	seen := make(chan string, 10)
	operator := &shop{reconcile: func(name types.NamespacedName, value string) { seen <- name.Name + ": " + value }}
	if err := operator.SetupWithManager(mgr); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = mgr.Start(ctx) })

	order := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "order"}, Data: map[string]string{"secret": "payment"}}
	if _, err := server.Client().CoreV1().ConfigMaps("default").Create(ctx, order, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(<-seen)
	payment := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "payment"}, Data: map[string][]byte{"value": []byte("1")}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(ctx, payment, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(<-seen)

	cancel()
	running.Wait()
	// Output:
	// order: absent
	// order: 1
}
