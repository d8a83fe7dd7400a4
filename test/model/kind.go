// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/apiserver"
)

// widgets is a custom resource.
var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

var widgetDefinition = apiserver.CustomResource{Group: widgets.Group, Version: widgets.Version, Resource: widgets.Resource, Kind: "Widget"}

// kind is how the objects of a subject are written, with a client that no fault affects.
type kind struct {
	resource  schema.GroupResource
	immutable bool // objects can be immutable
	// noticesRetryAfter is set if the client returns the Retry-After of a response to the subject. client-go's dynamic
	// client does not: it waits for as long itself, until the subject gives up and begins again.
	noticesRetryAfter bool
	create            func(ctx context.Context, meta metav1.ObjectMeta, content string, immutable bool) error
	update            func(ctx context.Context, meta metav1.ObjectMeta, content string, immutable bool) error
	delete            func(ctx context.Context, namespace, name string) error
	// refer makes a pod reference an object.
	refer func(pod *corev1.Pod, name string)
}

// newKinds returns Secrets, ConfigMaps and widgets, in the order of the subjects.
func newKinds(client kubernetes.Interface, dynamicClient dynamic.Interface) []*kind {
	return []*kind{secretKind(client), configMapKind(client), widgetKind(dynamicClient)}
}

func secretKind(client kubernetes.Interface) *kind {
	secret := func(meta metav1.ObjectMeta, content string, immutable bool) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"content": []byte(content)}, Immutable: &immutable}
	}
	return &kind{
		resource: corev1.Resource("secrets"), immutable: true, noticesRetryAfter: true,
		create: func(ctx context.Context, meta metav1.ObjectMeta, content string, immutable bool) error {
			_, err := client.CoreV1().Secrets(meta.Namespace).Create(ctx, secret(meta, content, immutable), metav1.CreateOptions{})
			return err
		},
		update: func(ctx context.Context, meta metav1.ObjectMeta, content string, immutable bool) error {
			_, err := client.CoreV1().Secrets(meta.Namespace).Update(ctx, secret(meta, content, immutable), metav1.UpdateOptions{})
			return err
		},
		delete: func(ctx context.Context, namespace, name string) error {
			return client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		},
		refer: func(pod *corev1.Pod, name string) {
			source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		},
	}
}

func configMapKind(client kubernetes.Interface) *kind {
	configMap := func(meta metav1.ObjectMeta, content string, immutable bool) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"content": content}, Immutable: &immutable}
	}
	return &kind{
		resource: corev1.Resource("configmaps"), immutable: true, noticesRetryAfter: true,
		create: func(ctx context.Context, meta metav1.ObjectMeta, content string, immutable bool) error {
			_, err := client.CoreV1().ConfigMaps(meta.Namespace).Create(ctx, configMap(meta, content, immutable), metav1.CreateOptions{})
			return err
		},
		update: func(ctx context.Context, meta metav1.ObjectMeta, content string, immutable bool) error {
			_, err := client.CoreV1().ConfigMaps(meta.Namespace).Update(ctx, configMap(meta, content, immutable), metav1.UpdateOptions{})
			return err
		},
		delete: func(ctx context.Context, namespace, name string) error {
			return client.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		},
		refer: func(pod *corev1.Pod, name string) {
			source := corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
			pod.Spec.Containers[0].EnvFrom = append(pod.Spec.Containers[0].EnvFrom, source)
		},
	}
}

func widgetKind(client dynamic.Interface) *kind {
	widget := func(meta metav1.ObjectMeta, content string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": widgets.GroupVersion().String(), "kind": widgetDefinition.Kind,
			"metadata": map[string]any{"namespace": meta.Namespace, "name": meta.Name, "resourceVersion": meta.ResourceVersion},
			"spec":     map[string]any{"content": content},
		}}
		object.SetManagedFields(meta.ManagedFields)
		return object
	}
	return &kind{
		resource: widgets.GroupResource(),
		create: func(ctx context.Context, meta metav1.ObjectMeta, content string, _ bool) error {
			_, err := client.Resource(widgets).Namespace(meta.Namespace).Create(ctx, widget(meta, content), metav1.CreateOptions{})
			return err
		},
		update: func(ctx context.Context, meta metav1.ObjectMeta, content string, _ bool) error {
			_, err := client.Resource(widgets).Namespace(meta.Namespace).Update(ctx, widget(meta, content), metav1.UpdateOptions{})
			return err
		},
		delete: func(ctx context.Context, namespace, name string) error {
			return client.Resource(widgets).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		},
		refer: func(pod *corev1.Pod, name string) {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[widgets.Resource] += " " + name
		},
	}
}
