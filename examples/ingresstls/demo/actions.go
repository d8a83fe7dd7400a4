// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/examples/ingresstls/controller"
	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/test/apiserver"
)

// This file holds the actions of the steps. Those on Ingresses and Secrets use the API only, so that kubectl could do
// the same.

func (d *demo) createNamespace(name string) steps.Action {
	return func(ctx context.Context) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := d.server.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		return err
	}
}

// issue creates a TLS Secret with a new certificate for the hosts, or replaces the certificate in it.
func (d *demo) issue(namespace, name string, hosts ...string) steps.Action {
	return func(ctx context.Context) error {
		secret, err := d.authority.Secret(namespace, name, hosts...)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return err
		}
		d.serials[namespace+"/"+name] = pair.Leaf.SerialNumber.Int64()
		secrets := d.server.Client().CoreV1().Secrets(namespace)
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}) // without a version: unconditional
		if apierrors.IsNotFound(err) {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		}
		return err
	}
}

// overwrite replaces the certificate of a Secret by garbage.
func (d *demo) overwrite(namespace, name string) steps.Action {
	return func(ctx context.Context) error {
		patch := []byte(`{"stringData":{"tls.crt":"garbage"}}`)
		_, err := d.server.Client().CoreV1().Secrets(namespace).Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
		return err
	}
}

func (d *demo) deleteSecret(namespace, name string) steps.Action {
	return func(ctx context.Context) error {
		return d.server.Client().CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// createIngress creates an Ingress that names one Secret for its hosts.
func (d *demo) createIngress(namespace, name, secret string, hosts ...string) steps.Action {
	return func(ctx context.Context) error {
		ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}}
		ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: secret, Hosts: hosts}}
		for _, host := range hosts {
			ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{Host: host})
		}
		_, err := d.server.Client().NetworkingV1().Ingresses(namespace).Create(ctx, ingress, metav1.CreateOptions{})
		return err
	}
}

func (d *demo) deleteIngress(namespace, name string) steps.Action {
	return func(ctx context.Context) error {
		return d.server.Client().NetworkingV1().Ingresses(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// grant generates the Roles for what the Ingresses reference now, as --print-roles does, and lets the API server allow
// the controller what they say.
func (d *demo) grant(ctx context.Context) error {
	c, err := controller.New(controller.Options{Client: d.server.Client()})
	if err == nil {
		err = c.ListIngresses(ctx)
	}
	if err != nil {
		return err
	}
	roles, err := c.Roles(userAgent)
	if err != nil {
		return err
	}
	granted := map[string]rbacv1.PolicyRule{} // on Secrets, by namespace
	for _, role := range roles {
		rule := role.Rules[0]
		granted[role.Namespace] = rule
		d.printf("            Role in %s: %s of secrets [%s]\n", role.Namespace, strings.Join(rule.Verbs, ", "), strings.Join(rule.ResourceNames, " "))
	}
	d.server.Authorize(func(r apiserver.Request) bool {
		rule := granted[r.Namespace]
		return !isController(r) || r.Resource == "ingresses" && (r.Verb == "list" || r.Verb == "watch") ||
			r.Resource == "secrets" && slices.Contains(rule.Verbs, r.Verb) && slices.Contains(rule.ResourceNames, r.Name)
	})
	return nil
}

func isController(r apiserver.Request) bool { return strings.Contains(r.UserAgent, userAgent) }

// disconnect ends the controller's watches, and lets the API server answer its requests with 503.
func (d *demo) disconnect(context.Context) error {
	d.server.Intercept(func(_ context.Context, r apiserver.Request) *metav1.Status {
		if !isController(r) {
			return nil
		}
		status := apierrors.NewServiceUnavailable("the demo has made the API server unavailable").Status()
		return &status
	})
	if d.server.CloseStreams(isController) == 0 {
		return errors.New("the controller has no watches")
	}
	return nil
}

// reconnect ends disconnect.
func (d *demo) reconnect(context.Context) error {
	d.server.Intercept(nil)
	return nil
}
