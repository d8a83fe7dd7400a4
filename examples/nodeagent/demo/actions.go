// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file holds the actions of the steps. All use the API only, so that kubectl could do the same.

// create creates the workload, Secrets before the pods that name them. The agent is started after it, and so finds a
// node with pods.
func (d *demo) create(ctx context.Context) error {
	core := d.client.CoreV1()
	_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	errs := []error{err}
	for _, s := range demoSecrets() {
		_, err := core.Secrets(namespace).Create(ctx, s, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	for _, c := range demoConfigMaps() {
		_, err := core.ConfigMaps(namespace).Create(ctx, c, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	for _, p := range demoPods(d.node) {
		created, err := core.Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		d.pods[p.Name] = created // with its UID
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// createSecret creates a Secret.
func (d *demo) createSecret(name string, data map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := d.client.CoreV1().Secrets(namespace).Create(ctx, secret(name, data), metav1.CreateOptions{})
		return err
	}
}

// setSecret replaces all data of a Secret in one update. One update is one watch event, and must be one change on disk
// for all keys.
func (d *demo) setSecret(name string, data map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		secrets := d.client.CoreV1().Secrets(namespace)
		s, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Data, s.StringData = nil, data
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
		return err
	}
}

// deleteSecret deletes a Secret. The server allows this while pods reference it.
func (d *demo) deleteSecret(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// addToConfigMap adds or replaces a key of a ConfigMap.
func (d *demo) addToConfigMap(name, key, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		configMaps := d.client.CoreV1().ConfigMaps(namespace)
		c, err := configMaps.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Data[key] = value
		_, err = configMaps.Update(ctx, c, metav1.UpdateOptions{})
		return err
	}
}

// deletePod deletes a pod. The server removes it at once: there is no kubelet to wait for.
func (d *demo) deletePod(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}
