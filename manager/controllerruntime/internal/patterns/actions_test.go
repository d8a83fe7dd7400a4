// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The parts of patterns: what calls a reconcile.

// nothing calls reconciles of custom resources when they change, and not for Secrets.
func nothing(_ *process, b *builder.Builder) *builder.Builder { return b.For(&corev1.ConfigMap{}) }

// watches calls them for the Secrets that they name, too, by an index.
func watches(opts ...builder.WatchesOption) func(*process, *builder.Builder) *builder.Builder {
	return func(p *process, b *builder.Builder) *builder.Builder {
		return b.For(&corev1.ConfigMap{}).Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(p.owners), opts...)
	}
}

// owners returns the custom resources that name a Secret.
func (p *process) owners(ctx context.Context, secret client.Object) (requests []reconcile.Request) {
	if p.operator.pattern.silent {
		p.operator.findings.add(fmt.Errorf("a handler got an event of %s, want none", client.ObjectKeyFromObject(secret)))
	}
	owners := &corev1.ConfigMapList{}
	err := p.client.List(ctx, owners, client.InNamespace(secret.GetNamespace()), client.MatchingFields{field: secret.GetName()})
	if err != nil && ctx.Err() == nil {
		p.operator.findings.add(fmt.Errorf("list the custom resources: %w", err))
	}
	for i := range owners.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&owners.Items[i])})
	}
	return requests
}

// forSecrets calls reconciles of Secrets, when they or custom resources that name them change.
func forSecrets(_ *process, b *builder.Builder) *builder.Builder {
	return b.For(&corev1.Secret{}).Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, owner client.Object) (requests []reconcile.Request) {
			for _, key := range secretsOf(owner.(*corev1.ConfigMap)) {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
			return requests
		}))
}

// indexSecrets makes an index of Secrets by their names.
func indexSecrets(p *process) error {
	return p.manager.GetFieldIndexer().IndexField(p.ctx, &corev1.Secret{}, "name", func(secret client.Object) []string { return []string{secret.GetName()} })
}

// own is an operator's own NewCache, which leaves another cluster to the stock cache.
func own(newCache cache.NewCacheFunc) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		if config.Host == "https://another" {
			return cache.New(config, options)
		}
		return newCache(config, options)
	}
}

// action reads a Secret, and perhaps writes it.
type action func(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error)

func getFrom(ctx context.Context, reader client.Reader, key types.NamespacedName) (metav1.Object, error) {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, key, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

func get(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	return getFrom(ctx, p.client, key)
}

func getLive(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	return getFrom(ctx, p.manager.GetAPIReader(), key)
}

func getUnstructured(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := p.client.Get(ctx, key, untyped); err != nil {
		return nil, err
	}
	typed := &corev1.Secret{}
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, typed)
}

func list(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	return listWith(ctx, p, key, client.MatchingLabels{"app": "model"})
}

func listByIndex(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	return listWith(ctx, p, key, client.MatchingFields{"name": key.Name})
}

func listWith(ctx context.Context, p *process, key types.NamespacedName, option client.ListOption) (metav1.Object, error) {
	secrets := &corev1.SecretList{}
	if err := p.client.List(ctx, secrets, client.InNamespace(key.Namespace), option); err != nil {
		return nil, err
	}
	for i := range secrets.Items {
		if secrets.Items[i].Name == key.Name {
			return &secrets.Items[i], nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
}

// create creates a Secret that is absent.
func create(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	object, err := get(ctx, p, key)
	if apierrors.IsNotFound(err) {
		if err := p.client.Create(ctx, made(key)); err != nil {
			return nil, failedWrite(err)
		}
	}
	return object, err
}

// createBlindly creates a Secret without a Get.
func createBlindly(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	secret := made(key)
	if err := p.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, failedWrite(err)
	}
	return secret, nil
}

// failedWrite returns the error of a write. A 404 for it, as of a path that is not served, does not say that the Secret
// is absent.
func failedWrite(err error) error { return fmt.Errorf("write: %v", err) } //nolint:errorlint // not a 404 any more

func made(key types.NamespacedName) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"app": "model"}},
		Data:       map[string][]byte{"content": []byte("made by the operator")},
	}
}

// applyBlindly applies a Secret without a Get.
func applyBlindly(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	configuration := applycorev1.Secret(key.Name, key.Namespace).
		WithLabels(map[string]string{"app": "model"}).WithData(map[string][]byte{"applied": []byte("by the operator")})
	return made(key), p.client.Apply(ctx, configuration, client.FieldOwner("operator"), client.ForceOwnership)
}

// apply applies a Secret, and gets it. It must then be as it was applied, or newer.
func apply(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	if _, err := applyBlindly(ctx, p, key); err != nil {
		return nil, failedWrite(err)
	}
	return get(ctx, p, key)
}

// update changes a Secret that it has not changed yet, and gets it.
func update(ctx context.Context, p *process, key types.NamespacedName) (metav1.Object, error) {
	object, err := get(ctx, p, key)
	if err != nil {
		return nil, err
	}
	secret := object.(*corev1.Secret)
	if _, ok := secret.Annotations["seen"]; ok {
		return secret, nil
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "seen", "yes")
	if err := p.client.Update(ctx, secret); err != nil {
		return nil, failedWrite(err)
	}
	after, err := get(ctx, p, key)
	return after, errors.Join(err, p.checkWritten(ctx, secret, after, err))
}

// checkWritten records a finding if a Get after a write has returned a state from before it. If the Secret is absent,
// somebody else may have deleted it: then it is absent on the server, too, or another one.
func (p *process) checkWritten(ctx context.Context, written *corev1.Secret, got metav1.Object, err error) error {
	key := client.ObjectKeyFromObject(written)
	if err == nil && numberOf(got) < numberOf(written) {
		p.operator.findings.add(fmt.Errorf("%s: a Get after the write of version %s returned version %s", key, written.ResourceVersion, got.GetResourceVersion()))
	}
	if !apierrors.IsNotFound(err) {
		return nil
	}
	now, err := getLive(ctx, p, key)
	if err == nil && now.GetUID() == written.UID {
		p.operator.findings.add(fmt.Errorf("%s: a Get after the write of version %s returned that it is absent", key, written.ResourceVersion))
	}
	return client.IgnoreNotFound(err)
}

func numberOf(object metav1.Object) uint64 {
	number, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return number
}
