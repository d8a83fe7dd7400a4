// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/e2e"
)

// gateway is a user that has only the rights that a test grants.
const gateway = "gateway"

// gatewayRig has a store of secrets that connects as the gateway, through the proxy.
type gatewayRig struct {
	*rig

	store   *objectcache.WatchStore[*corev1.Secret]
	secrets *manager.Manager[*corev1.Secret]
}

func newGatewayRig(t *testing.T, options e2e.Options) *gatewayRig {
	r := newRig(t, options)
	client := e2e.Client(r, r.cluster.ThroughProxy(r.cluster.User(gateway)))
	store, err := objectcache.NewWatchStore(resource.Secrets(client), objectcache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := manager.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &gatewayRig{rig: r, store: store, secrets: secrets}
}

// apply creates Roles and ClusterRoles, and binds them to the gateway.
func (r *rig) apply(roles []rbacv1.Role, clusterRoles []rbacv1.ClusterRole) {
	r.Helper()
	rbac, subjects := r.admin.RbacV1(), []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: gateway}}
	for _, role := range roles {
		r.must(rbac.Roles(role.Namespace).Create(r.Context(), &role, metav1.CreateOptions{}))
		r.must(rbac.RoleBindings(role.Namespace).Create(r.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   subjects,
		}, metav1.CreateOptions{}))
	}
	for _, role := range clusterRoles {
		r.must(rbac.ClusterRoles().Create(r.Context(), &role, metav1.CreateOptions{}))
		r.must(rbac.ClusterRoleBindings().Create(r.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   subjects,
		}, metav1.CreateOptions{}))
	}
}

// grant creates the Roles that the library returns for these secrets without the verb get, binds them to the gateway,
// and waits until they are effective.
func (r *gatewayRig) grant(role string, names ...string) {
	r.Helper()
	secrets := access.Secrets(keysOf(names)...)
	secrets.Verbs = []string{"list", "watch"}
	roles, err := access.Roles(role, secrets)
	r.must(roles, err)
	r.apply(roles, nil)
	for _, name := range names {
		r.awaitAllowed(gateway, nil, name, true)
	}
}

// revoke deletes the Role and the binding of a grant, and waits until that is effective.
func (r *gatewayRig) revoke(role string, names ...string) {
	r.Helper()
	r.must(nil, r.admin.RbacV1().RoleBindings(namespace).Delete(r.Context(), role, metav1.DeleteOptions{}))
	r.must(nil, r.admin.RbacV1().Roles(namespace).Delete(r.Context(), role, metav1.DeleteOptions{}))
	for _, name := range names {
		r.awaitAllowed(gateway, nil, name, false)
	}
}

// reference sets the gateway's references.
func (r *gatewayRig) reference(names ...string) {
	r.secrets.SetReferences(manager.Owner{Kind: "Gateway", Namespace: namespace, Name: gateway, UID: gateway}, keysOf(names)...)
}

func keysOf(names []string) (keys []types.NamespacedName) {
	for _, name := range names {
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
}

// servers returns options for servers with and without WatchList.
func servers() map[string]e2e.Options {
	return map[string]e2e.Options{"WatchList": {}, "list and watch": {DisableWatchList: true}}
}

// TestLeastPrivilege: list and watch with resourceNames are enough for the named objects. Another object is refused,
// and does not affect them.
func TestLeastPrivilege(t *testing.T) {
	for name, options := range servers() {
		t.Run(name, func(t *testing.T) {
			r := newGatewayRig(t, options)
			r.createSecret("tls", "1")
			r.createSecret("private", "canary")
			r.grant("certificates", "tls", "tls-next")
			r.reference("tls", "tls-next", "private")
			stop := e2e.Run(r, r.secrets.Run)

			r.checkGranted()
			if err := refused(t.Context(), r.secrets, "secrets", "private"); err != nil {
				t.Error(err)
			}
			r.setSecret("tls", "5")
			r.eventuallyValue(r.secrets, "tls", "5")

			// After a grant, Gets succeed soon, whatever the back-off is.
			r.grant("more", "private")
			r.eventuallyValue(r.secrets, "private", "canary")

			r.checkForbidden()
			stop()
			found := r.finish(gateway, allowList{objects: []string{"secrets/tls", "secrets/tls-next", "secrets/private"}})
			if found.forbidden == 0 {
				t.Error("forbidden requests: got none, want some before the grant")
			}
		})
	}
}

// checkGranted creates, updates, deletes and recreates the granted secrets, and gets them.
func (r *gatewayRig) checkGranted() {
	r.Helper()
	r.wantValue(r.secrets, "tls", "1")
	if _, err := r.secrets.Get(r.Context(), namespace, "tls-next"); !apierrors.IsNotFound(err) {
		r.Errorf("Get of an absent secret: got error %v, want NotFound", err)
	}
	r.createSecret("tls-next", "2")
	r.eventuallyValue(r.secrets, "tls-next", "2")
	r.setSecret("tls", "3")
	r.eventuallyValue(r.secrets, "tls", "3")

	r.deleteSecret("tls")
	r.eventually("deletion", func(ctx context.Context) error {
		if _, err := r.secrets.Get(ctx, namespace, "tls"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got error %w, want NotFound", err)
		}
		return nil
	})
	recreated := r.createSecret("tls", "4")
	r.eventuallyValue(r.secrets, "tls", "4")
	if got, err := r.secrets.Get(r.Context(), namespace, "tls"); err != nil || got.UID != recreated.UID {
		r.Errorf("recreated secret: got error %v and UID %v, want UID %s", err, got.GetUID(), recreated.UID)
	}
}

// checkForbidden sends requests that the library must not send: the server refuses them, so the user has no rights
// beyond its Roles.
func (r *gatewayRig) checkForbidden() {
	r.Helper()
	config := r.cluster.User(gateway)
	config.UserAgent = manualAgent
	secrets := e2e.Client(r, config).CoreV1().Secrets(namespace)
	_, err := secrets.Get(r.Context(), "tls", metav1.GetOptions{})
	r.wantForbidden("get by name", err)
	_, err = secrets.List(r.Context(), metav1.ListOptions{})
	r.wantForbidden("list of the namespace", err)
	_, err = secrets.Watch(r.Context(), metav1.ListOptions{})
	r.wantForbidden("watch of the namespace", err)
	_, err = secrets.List(r.Context(), metav1.ListOptions{FieldSelector: "metadata.name=other"})
	r.wantForbidden("list of another name", err)
	_, err = secrets.Update(r.Context(), secretOf("tls", "x"), metav1.UpdateOptions{})
	r.wantForbidden("update", err)
}

// TestClusterRolesAreEnough: the ClusterRole that the library returns is enough for an object of a cluster-scoped kind.
func TestClusterRolesAreEnough(t *testing.T) {
	r := newRig(t, e2e.Options{})
	client := e2e.Client(r, r.cluster.User(gateway))
	path := corev1.SchemeGroupVersion.WithResource("namespaces")
	namespaces := resource.Typed[*corev1.Namespace, *corev1.NamespaceList](client.CoreV1().RESTClient(), path).ClusterScoped()
	shop := types.NamespacedName{Name: namespace}
	clusterRoles, err := access.ClusterRoles("shop", access.Objects{Resource: path, ClusterScoped: true, Keys: []types.NamespacedName{shop}})
	r.must(clusterRoles, err)
	r.apply(nil, clusterRoles)
	r.eventually("the namespace is granted", func(context.Context) error {
		_, err := getOnce(t, namespaces, shop)
		return err
	})
	if got, err := getOnce(t, namespaces, types.NamespacedName{Name: "default"}); !apierrors.IsForbidden(err) {
		t.Errorf("another namespace: got %v and error %v, want Forbidden", got, err)
	}
}

// TestRevoked: an open watch continues after its right is revoked. Once it has ended, the last state is served and the
// status has the refusal. After a new grant the newest state is served.
func TestRevoked(t *testing.T) {
	for name, options := range servers() {
		t.Run(name, func(t *testing.T) {
			r := newGatewayRig(t, options)
			r.createSecret("tls", "1")
			r.grant("certificates", "tls")
			r.reference("tls")
			stop := e2e.Run(r, r.secrets.Run)
			r.wantValue(r.secrets, "tls", "1")

			// Without WatchList the value is read before the watch is open, and the watch would be refused.
			r.eventually("the watch is open", func(ctx context.Context) error {
				open, err := r.cluster.Metric(ctx, "apiserver_longrunning_requests", map[string]string{"resource": "secrets", "verb": "WATCH"})
				if err == nil && open < 1 {
					err = errors.New("no watch of secrets is open")
				}
				return err
			})
			r.revoke("certificates", "tls")
			r.setSecret("tls", "2")
			r.eventuallyValue(r.secrets, "tls", "2")

			r.cluster.Proxy.Cut()
			r.eventually("the status has the refusal", func(context.Context) error {
				status, _ := r.store.Status(namespace, "tls")
				if status.Phase != objectcache.PhaseNotUpdated || !apierrors.IsForbidden(status.LastError) {
					return fmt.Errorf("got phase %s and error %w, want NotUpdated and Forbidden", status.Phase, status.LastError)
				}
				return nil
			})
			r.setSecret("tls", "3")
			r.wantValue(r.secrets, "tls", "2")

			r.grant("again", "tls")
			granted := time.Now()
			r.eventuallyValue(r.secrets, "tls", "3")
			r.eventually("the status is healthy", func(context.Context) error {
				if status, _ := r.store.Status(namespace, "tls"); status.Phase != objectcache.PhaseServing {
					return errors.New("phase " + string(status.Phase))
				}
				return nil
			})
			t.Logf("up to date %v after the new grant", time.Since(granted).Round(time.Millisecond))
			stop()
			r.finish(gateway, allowList{objects: []string{"secrets/tls"}})
		})
	}
}
