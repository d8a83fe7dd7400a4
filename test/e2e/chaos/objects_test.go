// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/soak"
)

// namespace is that of the objects.
const namespace = "chaos"

func (p *controlPlane) createNamespace(ctx context.Context) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := p.admin.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	return err
}

// recreate deletes objects and creates them again, in a loop.
func (p *controlPlane) recreate(ctx context.Context, load *soak.Load) error {
	ctx, cancel := context.WithTimeout(ctx, down)
	defer cancel()
	return load.Recreate(ctx)
}

// grow makes objects large, and cuts all connections so that they are sent again.
func (p *controlPlane) grow(ctx context.Context, load *soak.Load) error {
	const count = 50
	load.Count("objects of 1 MiB", count)
	return load.Grow(count, 1000<<10, func() {
		load.Cut()
		hold(ctx, down)
	})
}

// deleteNamespace deletes the namespace and all objects in it, as the namespace controller does, and creates it again.
func (p *controlPlane) deleteNamespace(ctx context.Context, load *soak.Load) error {
	return load.Quiet(func() error {
		namespaces := p.admin.CoreV1().Namespaces()
		if err := namespaces.Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := load.DeleteAll(); err != nil {
			return err
		}
		terminating, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		terminating.Spec.Finalizers = nil
		if _, err := namespaces.Finalize(ctx, terminating, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("finalizing the namespace: %w", err)
		}
		hold(ctx, down)
		return errors.Join(ctx.Err(), p.createNamespace(ctx))
	})
}
