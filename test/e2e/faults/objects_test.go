// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the admin asks for is never special.
var (
	createOptions metav1.CreateOptions
	updateOptions metav1.UpdateOptions
	deleteOptions metav1.DeleteOptions
)

// create makes n Secrets, references them, and waits until their streams are open.
func (r *rig) create(n int) (names []string) {
	r.Helper()
	for i := range n {
		name := fmt.Sprintf("secret-%02d", i)
		r.put(name, "first")
		r.store.AddReference(r.namespace, name, owner)
		names = append(names, name)
	}
	r.converged(names)
	return names
}

// put creates a Secret.
func (r *rig) put(name, value string, change ...func(*corev1.Secret)) *corev1.Secret {
	r.Helper()
	created, err := r.admin.CoreV1().Secrets(r.namespace).Create(r.Context(), secret(name, value, change...), createOptions)
	if err != nil {
		r.Fatalf("create %s: %v", name, err)
	}
	return created
}

func (r *rig) update(value string, names ...string) {
	r.Helper()
	for _, name := range names {
		if _, err := r.admin.CoreV1().Secrets(r.namespace).Update(r.Context(), secret(name, value), updateOptions); err != nil {
			r.Fatalf("update %s: %v", name, err)
		}
	}
}

func (r *rig) remove(names ...string) {
	r.Helper()
	for _, name := range names {
		if err := r.admin.CoreV1().Secrets(r.namespace).Delete(r.Context(), name, deleteOptions); err != nil {
			r.Fatalf("delete %s: %v", name, err)
		}
	}
}

// replace deletes Secrets and creates others of the same names.
func (r *rig) replace(value string, names ...string) {
	r.Helper()
	for _, name := range names {
		r.remove(name)
		r.put(name, value)
	}
}

// change updates, deletes and recreates a third of the Secrets each, but for the last few, which it leaves alone.
func (r *rig) change(names []string) {
	r.Helper()
	third := (len(names) - 2) / 3
	r.update("updated", names[:third]...)
	r.remove(names[third : 2*third]...)
	r.replace("recreated", names[2*third:3*third]...)
}

// onServer returns the Secrets that there are, by name.
func (r *rig) onServer() map[string]*corev1.Secret {
	r.Helper()
	list, err := r.admin.CoreV1().Secrets(r.namespace).List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatalf("list: %v", err)
	}
	found := map[string]*corev1.Secret{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}

func secret(name, value string, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string][]byte{"value": []byte(value)},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func immutable(s *corev1.Secret) { yes := true; s.Immutable = &yes }
