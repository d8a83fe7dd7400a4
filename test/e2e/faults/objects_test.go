// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// many is how many objects a test references.
	many = 1_000
	// writers is how many write requests are sent at the same time.
	writers = 16
)

// The options of the administrator's requests are empty.
var (
	createOptions metav1.CreateOptions
	updateOptions metav1.UpdateOptions
	deleteOptions metav1.DeleteOptions
)

// create creates n Secrets, references them, and waits until their streams are open. It reuses Secrets of an earlier
// test in the namespace.
func (r *rig) create(n int) (names []string) {
	r.Helper()
	names = r.prepare(n)
	r.reference(names...)
	r.converged(names)
	return names
}

// prepare creates n Secrets, unless they exist, and returns their names.
func (r *rig) prepare(n int) (names []string) {
	r.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("secret-%04d", i))
	}
	existing := r.onServer()
	r.each(names, func(ctx context.Context, name string) error {
		if existing[name] != nil {
			return nil
		}
		return r.tryPut(ctx, name, "first")
	})
	return names
}

// reference adds a reference to each name.
func (r *rig) reference(names ...string) {
	for _, name := range names {
		r.store.AddReference(r.namespace, name, owner)
	}
}

// each calls f for all names concurrently, and fails the test on an error.
func (r *rig) each(names []string, f func(ctx context.Context, name string) error) {
	r.Helper()
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(writers)
	for _, name := range names {
		group.Go(func() error {
			if err := f(ctx, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		r.Fatal(err)
	}
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

func (r *rig) tryPut(ctx context.Context, name, value string) error {
	_, err := r.admin.CoreV1().Secrets(r.namespace).Create(ctx, secret(name, value), createOptions)
	return err
}

func (r *rig) update(value string, names ...string) {
	r.Helper()
	r.each(names, func(ctx context.Context, name string) error {
		_, err := r.admin.CoreV1().Secrets(r.namespace).Update(ctx, secret(name, value), updateOptions)
		return err
	})
}

func (r *rig) remove(names ...string) {
	r.Helper()
	r.each(names, r.tryRemove)
}

func (r *rig) tryRemove(ctx context.Context, name string) error {
	return r.admin.CoreV1().Secrets(r.namespace).Delete(ctx, name, deleteOptions)
}

// replace deletes Secrets and creates new ones with the same names.
func (r *rig) replace(value string, names ...string) {
	r.Helper()
	r.each(names, func(ctx context.Context, name string) error {
		if err := r.tryRemove(ctx, name); err != nil {
			return err
		}
		return r.tryPut(ctx, name, value)
	})
}

// change updates a third of the Secrets, deletes a third and recreates a third. It does not change the last few. It
// returns a text with the number of changed Secrets.
func (r *rig) change(names []string) string {
	r.Helper()
	third := (len(names) - 2) / 3
	r.update("updated", names[:third]...)
	r.remove(names[third : 2*third]...)
	r.replace("recreated", names[2*third:3*third]...)
	return fmt.Sprintf("%d of them changed", 3*third)
}

// onServer returns the Secrets on the server, by name.
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

// ensureNamespace creates the rig's namespace unless it exists.
func (r *rig) ensureNamespace() {
	r.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
	_, err := r.admin.CoreV1().Namespaces().Create(r.Context(), object, createOptions)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.Fatal(err)
	}
}

// secret returns a small Secret with that value.
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
