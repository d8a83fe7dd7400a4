// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/e2e"
)

// subjectOf is the subject of bindings for a user.
func subjectOf(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
}

// apply creates Roles and ClusterRoles, and binds them to the gateway.
func (r *rig) apply(roles []rbacv1.Role, clusterRoles []rbacv1.ClusterRole) {
	r.Helper()
	rbac := r.admin.RbacV1()
	for _, role := range roles {
		r.must(rbac.Roles(role.Namespace).Create(r.Context(), &role, metav1.CreateOptions{}))
		r.must(rbac.RoleBindings(role.Namespace).Create(r.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   subjectOf(gateway),
		}, metav1.CreateOptions{}))
	}
	for _, role := range clusterRoles {
		r.must(rbac.ClusterRoles().Create(r.Context(), &role, metav1.CreateOptions{}))
		r.must(rbac.ClusterRoleBindings().Create(r.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   subjectOf(gateway),
		}, metav1.CreateOptions{}))
	}
}

// TestCheck: the check returns what RBAC denies, in namespaces and for cluster-scoped kinds, and the Roles that
// it returns are enough for a store.
func TestCheck(t *testing.T) {
	r := newRig(t, e2e.Options{})
	r.must(r.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "billing"}}, metav1.CreateOptions{}))
	created := r.createSecret("tls", "1")
	client := e2e.Client(r, r.cluster.User(gateway))
	reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
	secrets := resource.Secrets(client)
	namespaces := resource.Typed[*corev1.Namespace, *corev1.NamespaceList](client.CoreV1().RESTClient(), corev1.SchemeGroupVersion.WithResource("namespaces")).ClusterScoped()
	keys := append(keysOf([]string{"tls", "tls-next"}), types.NamespacedName{Namespace: "billing", Name: "tls"})
	shop := types.NamespacedName{Name: namespace}
	check := func(ctx context.Context) (access.Denials, error) {
		return access.Check(ctx, reviews, access.Secrets(keys...), access.Objects{
			Resource: corev1.SchemeGroupVersion.WithResource("namespaces"), ClusterScoped: true, Keys: []types.NamespacedName{shop},
		})
	}

	denied, err := check(t.Context())
	r.must(denied, err)
	var lines []string
	for _, permission := range denied {
		lines = append(lines, permission.String())
	}
	want := []string{
		`list, watch of secrets tls is not allowed in the namespace "billing"`,
		`list, watch of secrets tls, tls-next is not allowed in the namespace "shop"`,
		`list, watch of namespaces shop is not allowed`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("denied: got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}

	roles, err := denied.Roles("certificates")
	r.must(roles, err)
	clusterRoles, err := denied.ClusterRoles("certificates")
	r.must(clusterRoles, err)
	r.apply(roles, clusterRoles)
	r.eventually("nothing is denied", func(ctx context.Context) error {
		denied, err := check(ctx)
		if err == nil && len(denied) > 0 {
			err = fmt.Errorf("got %v", denied)
		}
		return err
	})
	if got, err := getOnce(t, secrets, keys[0]); err != nil || got.UID != created.UID {
		t.Errorf("Get of a granted secret: got error %v, want the secret", err)
	}
	if got, err := getOnce(t, namespaces, shop); err != nil || got.Name != namespace {
		t.Errorf("Get of a granted namespace: got error %v, want it", err)
	}
}

// getOnce gets one object from a new store of the resource.
func getOnce[T cache.Object](t *testing.T, resource resource.Resource[T], key types.NamespacedName) (T, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return getWithin(ctx, t, resource, key)
}

func getWithin[T cache.Object](ctx context.Context, t *testing.T, resource resource.Resource[T], key types.NamespacedName) (T, error) {
	t.Helper()
	store, err := objectcache.NewWatchStore(resource, objectcache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer e2e.Run(t, store.Run)()
	store.AddReference(key.Namespace, key.Name, "test")
	return store.Get(ctx, key.Namespace, key.Name)
}

// TestAllowedNamespace: a Role without resourceNames allows a namespace, and that is asked once for all names.
func TestAllowedNamespace(t *testing.T) {
	r := newRig(t, e2e.Options{})
	reviews := e2e.Client(r, r.cluster.User(gateway)).AuthorizationV1().SelfSubjectAccessReviews()
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	if allowed, err := access.AllowedNamespace(t.Context(), reviews, secrets, namespace); err != nil || allowed {
		t.Errorf("before the grant: got %v and error %v, want false", allowed, err)
	}
	r.apply([]rbacv1.Role{{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}}},
	}}, nil)
	r.eventually("the namespace is allowed", func(ctx context.Context) error {
		allowed, err := access.AllowedNamespace(ctx, reviews, secrets, namespace)
		if err == nil && !allowed {
			err = errors.New("it is not")
		}
		return err
	})
	both := access.Secrets(keysOf([]string{"a", "b"})...)
	if denied, err := access.Check(t.Context(), reviews, both); err != nil || denied != nil {
		t.Errorf("names in it: got %v and error %v, want nothing denied", denied, err)
	}
	both.Verbs = []string{"get"}
	if denied, err := access.Check(t.Context(), reviews, both); err != nil || len(denied) != 1 {
		t.Errorf("get: got %v and error %v, want it denied", denied, err)
	}
}

// TestCheckOfNode: for a node the answers are those of the Node authorizer, with its reason.
func TestCheckOfNode(t *testing.T) {
	r := newRig(t, e2e.Options{})
	for _, name := range []string{"volume", "elsewhere"} {
		r.createSecret(name, name)
	}
	r.createPod("web", node1, corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("volume")}})
	reviews := e2e.Client(r, r.cluster.Node(node1)).AuthorizationV1().SelfSubjectAccessReviews()
	r.eventually("the secret of the pod is allowed, and no other", func(ctx context.Context) error {
		denied, err := access.Check(ctx, reviews, access.Secrets(keysOf([]string{"volume", "elsewhere"})...))
		if err != nil {
			return err
		}
		if len(denied) != 1 || !slices.Equal(denied[0].Rule.ResourceNames, []string{"elsewhere"}) || !strings.Contains(denied[0].Reason, "no relationship found") {
			return fmt.Errorf("got %v, want elsewhere, and the reason", denied)
		}
		return nil
	})
}

// TestCheckRefused: the server refuses the question of a user who is not authenticated.
func TestCheckRefused(t *testing.T) {
	r := newRig(t, e2e.Options{})
	config := r.cluster.User(gateway)
	config.CertData, config.KeyData = nil, nil
	reviews := e2e.Client(r, config).AuthorizationV1().SelfSubjectAccessReviews()
	denied, err := access.Check(t.Context(), reviews, access.Secrets(keysOf([]string{"tls"})...))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:basic-user") || denied != nil {
		t.Errorf("got %v and error %v, want Forbidden and what to do", denied, err)
	}
}
