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
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/test/e2e"
)

// A service account is deleted, which revokes its token: once the streams are cut, the server answers 401. The store
// recovers with a token of a new account in the same file, which client-go reads once a minute.
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
	r.grant(account, names)
	names = r.create(many)
	before := r.onServer()

	if err := r.admin.CoreV1().ServiceAccounts("default").Delete(r.Context(), account, deleteOptions); err != nil {
		t.Fatal(err)
	}
	// The server caches tokens for some seconds, and does not check the token of an open stream again.
	other := e2e.Client(t, config)
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
	r.observe(fault, "requests until there is a new token", r.requests.rate(outage), outage)
	writeToken(t, file, renewed.BearerToken)
	took := r.converged(names)
	r.observe(fault, "recovers with a new token in the file", changed, took)
}

// The token is invalid from the start, as after a restart with an expired token. Gets wait for every object.
func testInvalidToken(t *testing.T, cluster *e2e.Cluster) {
	const fault = "invalid token"
	config := rest.AnonymousClientConfig(cluster.ThroughProxy(cluster.Admin()))
	config.BearerToken, config.QPS = "invalid", -1
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	names := r.prepare(many)
	r.reference(names...)
	r.startCallers(names)
	r.eventually(func() error { return isUnauthorized(r.waitingGet(names[0])) })
	r.requests.reset()
	r.during(pause(countTime), func() error { return nil })
	// Allow twice as many, for bursts at the start and the end.
	seconds := int64(countTime / time.Second)
	if sent, dialed := r.requests.sent.Load(), r.requests.dialed.Load(); sent > 2*5*seconds || dialed > 2*2*seconds {
		t.Errorf("got %d requests and %d dials in %v, want at most 5 and 2 a second", sent, dialed, countTime)
	}
	r.observe(fault, "under 5 requests and 2 dials a second while Gets request all", r.requests.rate(countTime), countTime)
}

func writeToken(t *testing.T, file, token string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// grant grants a service account the Role that the library returns for the names. change may change the Role first.
func (r *rig) grant(account string, names []string, change ...func(*rbacv1.Role)) {
	r.Helper()
	var keys []types.NamespacedName
	for _, name := range names {
		keys = append(keys, types.NamespacedName{Namespace: r.namespace, Name: name})
	}
	roles, err := access.Roles(account, access.Secrets(keys...))
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

// unauthorized returns nil if the status of all names has a 401.
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
