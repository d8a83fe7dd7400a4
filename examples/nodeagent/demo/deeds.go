// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file holds what is done to the server, each as a step does it: with the story's own client, and through
// nothing but the API, so that all of it could be done with kubectl as well.

// create fills the server. Secrets come before the pods that name them, as they mostly do; the agent is
// started after all of it, and so finds a node with pods.
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

// createSecret creates a Secret that the story begins without.
func (d *demo) createSecret(name string, data map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := d.client.CoreV1().Secrets(namespace).Create(ctx, secret(name, data), metav1.CreateOptions{})
		return err
	}
}

// setSecret replaces all data of a Secret in one update, and leaves the rest as it is. One update is one event
// on the watch, and must be one change on disk, whatever the number of keys.
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

// deleteSecret deletes a Secret, which the server allows however many pods name it.
func (d *demo) deleteSecret(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// addToConfigMap adds a key, or replaces it.
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

// deletePod deletes a Pod. The server removes it at once, for there is no kubelet that would confirm that its
// containers have ended.
func (d *demo) deletePod(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}
