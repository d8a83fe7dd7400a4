// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/examples/operator/webv1"
)

// namespace is the namespace of all objects, as in config/rbac.yaml.
const namespace = "web"

// unrelated is the number of Secrets that no Site names.
const unrelated = 100

// scenario returns the steps of the demo.
func (d *demo) scenario() []steps.Step {
	return []steps.Step{{
		Title: fmt.Sprintf("The operator is started. There are two Sites, whose Secrets it may read, and %d other Secrets.", unrelated),
		Do:    steps.InOrder(d.create, d.startOperator),
		Checks: []steps.Check{
			d.site("shop", "NotFound", "shop-db: NotFound"),
			d.site("blog", "SecretsRead", ""),
			d.watches("shop-tls", 1), d.watches("shop-db", 1), d.watches("blog-tls", 1),
		},
	}, {
		Title:  `The missing Secret "shop-db" is created.`,
		Do:     func(ctx context.Context) error { return d.client.Create(ctx, secret("shop-db", "password 1")) },
		Checks: []steps.Check{d.site("shop", "SecretsRead", "")},
	}, {
		Title:  `The Secret "shop-tls" is rotated.`,
		Do:     d.rotate("shop-tls", "certificate 2"),
		Checks: []steps.Check{d.upToDate("shop", "shop-tls")},
	}, {
		Title:  `The Site "bank" is created. Its Secret "vault" is not in the Role. Another Secret is rotated meanwhile.`,
		Do:     steps.InOrder(d.createSite("bank", "vault"), d.rotate("blog-tls", "certificate 2")),
		Checks: []steps.Check{d.site("bank", "Forbidden", "vault: Forbidden"), d.upToDate("blog", "blog-tls")},
	}, {
		Title: `"vault" is added to the Role. Nothing is restarted.`,
		Do: func(context.Context) error {
			d.role.grant("vault")
			return nil
		},
		Checks: []steps.Check{d.site("bank", "SecretsRead", ""), d.upToDate("bank", "vault")},
	}, {
		Title:  `The Secret "shop-db" is deleted.`,
		Do:     func(ctx context.Context) error { return d.client.Delete(ctx, secret("shop-db", "")) },
		Checks: []steps.Check{d.site("shop", "NotFound", "shop-db: NotFound"), d.upToDate("shop", "shop-tls")},
	}, {
		Title:  `The Site "shop" no longer names it.`,
		Do:     d.setSecrets("shop", "shop-tls"),
		Checks: []steps.Check{d.site("shop", "SecretsRead", ""), d.namedOnly()},
	}}
}

// create creates the objects that exist before the operator is started.
func (d *demo) create(ctx context.Context) error {
	errs := []error{
		d.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}),
		d.client.Create(ctx, secret("shop-tls", "certificate 1")),
		d.client.Create(ctx, secret("blog-tls", "certificate 1")),
		d.client.Create(ctx, secret("vault", "key")),
		d.createSite("shop", "shop-tls", "shop-db")(ctx),
		d.createSite("blog", "blog-tls")(ctx),
	}
	for i := range unrelated {
		errs = append(errs, d.client.Create(ctx, secret(fmt.Sprintf("unrelated-%d", i), "of others")))
	}
	return errors.Join(errs...)
}

// createSite creates a Site.
func (d *demo) createSite(name string, secrets ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.client.Create(ctx, &webv1.Site{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: webv1.SiteSpec{SecretNames: secrets},
		})
	}
}

// setSecrets sets the Secrets that a Site names.
func (d *demo) setSecrets(site string, secrets ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		var current webv1.Site
		if err := d.client.Get(ctx, keyOf(site), &current); err != nil {
			return err
		}
		current.Spec.SecretNames = secrets
		return d.client.Update(ctx, &current)
	}
}

// rotate sets the data of a Secret.
func (d *demo) rotate(name, value string) func(context.Context) error {
	return func(ctx context.Context) error { return d.client.Update(ctx, secret(name, value)) }
}

// secret returns a Secret with one key.
func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"value": []byte(value)},
	}
}
