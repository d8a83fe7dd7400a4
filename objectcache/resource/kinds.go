// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/cache"
)

// Secrets is the resource of core/v1 Secrets.
func Secrets(client kubernetes.Interface) Resource[*corev1.Secret] {
	return ofClientset[*corev1.Secret, *corev1.SecretList](client, "secrets")
}

// ConfigMaps is the resource of core/v1 ConfigMaps.
func ConfigMaps(client kubernetes.Interface) Resource[*corev1.ConfigMap] {
	return ofClientset[*corev1.ConfigMap, *corev1.ConfigMapList](client, "configmaps")
}

// ofClientset returns a resource of the group core.
func ofClientset[T cache.Object, L runtime.Object](client kubernetes.Interface, name string) Resource[T] {
	path := corev1.SchemeGroupVersion.WithResource(name)
	if isNil(client) {
		return Typed[T, L](nil, path)
	}
	r := Typed[T, L](client.CoreV1().RESTClient(), path)
	if r.rest == nil {
		r.clientError = errNoRESTClient
	}
	return r
}

var errNoRESTClient = errors.New("the clientset has no REST client, as client-go's fake one: use test/apiserver in tests, or make a source for resource.FromSource")

// immutableOf returns a function that reports whether an object can never change, and nil
// if no object of the type T is immutable.
func immutableOf[T cache.Object]() func(T) bool {
	var object T
	switch any(object).(type) {
	case *corev1.Secret:
		return func(object T) bool { return isTrue(any(object).(*corev1.Secret).Immutable) }
	case *corev1.ConfigMap:
		return func(object T) bool { return isTrue(any(object).(*corev1.ConfigMap).Immutable) }
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
