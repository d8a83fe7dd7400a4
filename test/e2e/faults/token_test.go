// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// account is the service account that the store acts as here.
const account = "agent"

// A service account is deleted, and its token is worth nothing any more: 401 once the streams are cut. A token of the
// account's successor, in the same file, is all it takes to recover. client-go reads the file once a minute.
func TestUnauthorized(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	const fault = "token revoked"
	cluster := e2e.New(t, e2e.Options{})
	file := filepath.Join(t.TempDir(), "token")
	config, err := cluster.ServiceAccount(t.Context(), "default", account)
	if err != nil {
		t.Fatal(err)
	}
	writeToken(t, file, config.BearerToken)
	config.BearerToken, config.BearerTokenFile = "", file
	r := newRig(t, cluster, "unauthorized", cluster.ThroughProxy(config), objectcache.WatchOptions{})
	r.admit("secret-00", "secret-01", "secret-02")
	names := r.create(3)
	before := r.onServer()

	if err := r.admin.CoreV1().ServiceAccounts("default").Delete(r.Context(), account, deleteOptions); err != nil {
		t.Fatal(err)
	}
	// The server remembers good tokens for some seconds, and an open stream is never asked for its token again.
	other := clientFor(t, config)
	r.eventually(func() error {
		_, err := other.CoreV1().Secrets(r.namespace).List(r.Context(), metav1.ListOptions{})
		return isUnauthorized(err)
	})
	cluster.Proxy.Cut()
	began := time.Now()
	r.eventually(func() error { return errors.Join(r.allAgree(names, before), r.unauthorized(names)) })
	observe(t, fault, "told by Status, last state served", "Failing, Unauthorized", time.Since(began))
	r.update("second", names...)
	renewed, err := cluster.ServiceAccount(r.Context(), "default", account)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.allAgree(names, before); err != nil {
		t.Error(err)
	}
	writeToken(t, file, renewed.BearerToken)
	took := r.converged(names)
	observe(t, fault, "recovers with a new token in the file", "3 objects changed meanwhile", took)
}

func writeToken(t *testing.T, file, token string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// admit lets the service account read what the store needs to, and no more.
func (r *rig) admit(names ...string) {
	r.Helper()
	var keys []types.NamespacedName
	for _, name := range names {
		keys = append(keys, types.NamespacedName{Namespace: r.namespace, Name: name})
	}
	roles, err := objectcache.Secrets(nil).Roles(account, keys...)
	if err != nil {
		r.Fatal(err)
	}
	rbac := r.admin.RbacV1()
	if _, err := rbac.Roles(r.namespace).Create(r.Context(), &roles[0], createOptions); err != nil {
		r.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
	}
	if _, err := rbac.RoleBindings(r.namespace).Create(r.Context(), binding, createOptions); err != nil {
		r.Fatal(err)
	}
}

// unauthorized returns nil if the server has refused the token for all names.
func (r *rig) unauthorized(names []string) error {
	return errors.Join(r.failing(names, 1), r.all(names, func(s objectcache.Status) error {
		return isUnauthorized(s.LastError)
	}))
}

func isUnauthorized(err error) error {
	if !apierrors.IsUnauthorized(err) {
		return fmt.Errorf("got error %w, want 401", err)
	}
	return nil
}
