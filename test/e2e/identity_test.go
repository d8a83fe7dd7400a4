// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A node may list and watch, by name, the objects that pods bound to it reference, and nothing else.
func testNode(t *testing.T, c *Cluster) {
	admin := Client(t, c.Admin())
	for _, name := range []string{"mine", "other"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := admin.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), podOn("node-1", "mine"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context, config *rest.Config, options metav1.ListOptions) error {
		_, err := Client(t, config).CoreV1().Secrets("default").List(ctx, options)
		return err
	}
	named := func(name string) metav1.ListOptions {
		return metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	}
	eventually(t, func(ctx context.Context) error { // the authorizer's graph lags behind the pods
		return list(ctx, c.Node("node-1"), named("mine"))
	})
	w, err := Client(t, c.Node("node-1")).CoreV1().Secrets("default").Watch(t.Context(), named("mine"))
	if err != nil {
		t.Fatalf("watch: got %v, want none", err)
	}
	w.Stop()
	for name, test := range map[string]struct {
		config  *rest.Config
		options metav1.ListOptions
	}{
		"a secret of no pod":           {c.Node("node-1"), named("other")},
		"all secrets":                  {c.Node("node-1"), metav1.ListOptions{}},
		"a secret of another node":     {c.Node("node-2"), named("mine")},
		"a node's name, not its group": {c.User("system:node:node-1"), named("mine")},
		"a node's group, not its name": {c.User("somebody", nodesGroup), named("mine")},
		"a user without rights":        {c.User("somebody"), named("mine")},
	} {
		if err := list(t.Context(), test.config, test.options); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want forbidden", name, err)
		}
	}
}

// podOn returns a pod that is bound to a node and references a secret.
func podOn(node, secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{
				Name:         "v",
				VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}},
			}},
		},
	}
}

// A user has the rights that RBAC grants to it or its groups, until they are revoked.
func testUser(t *testing.T, c *Cluster) {
	admin, user := Client(t, c.Admin()), Client(t, c.User("jo", "readers"))
	read := func(ctx context.Context) error {
		_, err := user.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	}
	if err := read(t.Context()); !apierrors.IsForbidden(err) {
		t.Fatalf("before: got %v, want forbidden", err)
	}
	grant(t, admin, "readers", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "readers"})
	eventually(t, read)
	if err := admin.RbacV1().RoleBindings("default").Delete(t.Context(), "readers", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { return wantForbidden(read(ctx)) })
}

func wantForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return fmt.Errorf("got %w, want forbidden", err)
}

// grant lets a subject read ConfigMaps in the namespace default.
func grant(t *testing.T, admin kubernetes.Interface, name string, subject rbacv1.Subject) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{subject},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: name},
	}
	_, err := admin.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{})
	if err == nil {
		_, err = admin.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A token is valid until its account is deleted, and stays invalid if the account is created again.
func testServiceAccount(t *testing.T, c *Cluster) {
	admin := Client(t, c.Admin())
	grant(t, admin, "robot", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "robot"})
	issue := func() func(context.Context) error {
		config, err := c.ServiceAccount(t.Context(), "default", "robot")
		if err != nil {
			t.Fatal(err)
		}
		client := Client(t, config)
		return func(ctx context.Context) error {
			_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			return err
		}
	}
	first, second := issue(), issue()
	eventually(t, first)
	eventually(t, second)
	if err := admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		if err := first(ctx); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("got %w, want unauthorized", err)
		}
		return nil
	})
	third := issue()
	eventually(t, third)
	if err := first(t.Context()); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token of the deleted account: got %v, want unauthorized", err)
	}

	if _, err := c.ServiceAccount(t.Context(), "nowhere", "robot"); !apierrors.IsNotFound(err) {
		t.Errorf("in a namespace that does not exist: got %v, want not found", err)
	}
}

// If no certificate can be issued, requests with the configuration return the error.
func TestUserReportsItsError(t *testing.T) {
	good, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	broken := *good
	if broken.key, _, err = newKey(); err != nil { // not the key of its certificate
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		authority *authority
		user      string
		want      string
	}{
		"no name":   {good, "", "a user needs a name"},
		"wrong key": {&broken, "jo", `issuing a certificate for "jo"`},
	} {
		c := &Cluster{authority: test.authority, port: &port{addr: "127.0.0.1:1"}}
		_, err := Client(t, c.User(test.user)).Discovery().ServerVersion()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
