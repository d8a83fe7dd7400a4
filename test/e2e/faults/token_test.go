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
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// A service account is deleted, and its token is worth nothing any more: 401 once the streams are cut. A token of the
// account's successor, in the same file, is all it takes to recover. client-go reads the file once a minute.
func TestUnauthorized(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	const (
		fault   = "token revoked"
		account = "agent"
	)
	cluster := e2e.New(t, e2e.Options{})
	file := filepath.Join(t.TempDir(), "token")
	config, err := cluster.ServiceAccount(t.Context(), "default", account)
	if err != nil {
		t.Fatal(err)
	}
	writeToken(t, file, config.BearerToken)
	config.BearerToken, config.BearerTokenFile = "", file
	r := newRig(t, cluster, "unauthorized", cluster.ThroughProxy(config), objectcache.WatchOptions{})
	names := r.prepare(many)
	r.admit(account, names)
	names = r.create(many)
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
	r.requests.reset()
	cluster.Proxy.Cut()
	began := time.Now()
	r.eventually(func() error { return errors.Join(r.allAgree(names, before), r.unauthorized(names)) })
	r.observe(fault, "reported by Status, last state served", "Failing, Unauthorized", time.Since(began))
	changed := r.change(names)
	renewed, err := cluster.ServiceAccount(r.Context(), "default", account)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.allAgree(names, before); err != nil {
		t.Error(err)
	}
	outage := time.Since(began)
	r.observe(fault, "requests while it is", r.requests.rate(outage), outage)
	writeToken(t, file, renewed.BearerToken)
	took := r.converged(names)
	r.observe(fault, "recovers with a new token in the file", changed, took)
}

// A token that was never worth anything, as after a restart with one that has expired. Gets wait for every object.
func testDeadToken(t *testing.T, cluster *e2e.Cluster) {
	const fault = "dead token"
	config := rest.AnonymousClientConfig(cluster.ThroughProxy(cluster.Admin()))
	config.BearerToken, config.QPS = "worthless", -1
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	names := r.prepare(many)
	r.reference(names...)
	r.keepAsking(names)
	r.eventually(func() error { return isUnauthorized(r.waitingGet(names[0])) })
	r.requests.reset()
	r.during(last(settled), func() error { return nil })
	// Twice as many, for the edges of the time in which they are counted.
	seconds := int64(settled / time.Second)
	if sent, dialed := r.requests.sent.Load(), r.requests.dialed.Load(); sent > 2*5*seconds || dialed > 2*2*seconds {
		t.Errorf("got %d requests and %d dials in %v, want at most 5 and 2 a second", sent, dialed, settled)
	}
	r.observe(fault, "under 5 requests and 2 dials a second while Gets ask for all", r.requests.rate(settled), settled)
}

func writeToken(t *testing.T, file, token string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// admit lets a service account read what the store needs to, and no more, unless change is for something else.
func (r *rig) admit(account string, names []string, change ...func(*rbacv1.Role)) {
	r.Helper()
	var keys []types.NamespacedName
	for _, name := range names {
		keys = append(keys, types.NamespacedName{Namespace: r.namespace, Name: name})
	}
	roles, err := objectcache.Secrets(nil).Roles(account, keys...)
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range change {
		f(&roles[0])
	}
	rbac := r.admin.RbacV1()
	if _, err := rbac.Roles(r.namespace).Create(r.Context(), &roles[0], createOptions); err != nil {
		r.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}},
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
