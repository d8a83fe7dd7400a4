// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// timeout bounds each wait. A test that passes does not reach it.
	timeout = time.Minute

	// namespace is the namespace of all objects.
	namespace = "shop"

	// manualAgent is the user agent of requests that a test itself sends as the library's user. It identifies them in
	// the audit log.
	manualAgent = "manual"
)

// rig is a control plane and an administrator's client.
type rig struct {
	*testing.T

	cluster *e2e.Cluster
	admin   kubernetes.Interface
}

func newRig(t *testing.T, options e2e.Options) *rig {
	t.Helper()
	r := &rig{T: t, cluster: e2e.New(t, options)}
	r.admin = e2e.Client(t, r.cluster.Admin())
	r.must(r.admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	return r
}

// must fails the test on an error. It also takes the result of the administrator's call.
func (r *rig) must(_ any, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// eventually waits until check returns nil, and otherwise fails the test with its last error.
func (r *rig) eventually(what string, check func(context.Context) error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := e2e.Poll(ctx, check); err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

// createSecret creates a secret with the one key "value".
func (r *rig) createSecret(name, value string) *corev1.Secret {
	r.Helper()
	secret, err := r.admin.CoreV1().Secrets(namespace).Create(r.Context(), secretOf(name, value), metav1.CreateOptions{})
	r.must(secret, err)
	return secret
}

func (r *rig) setSecret(name, value string) {
	r.Helper()
	r.must(r.admin.CoreV1().Secrets(namespace).Update(r.Context(), secretOf(name, value), metav1.UpdateOptions{}))
}

func (r *rig) deleteSecret(name string) {
	r.Helper()
	r.must(nil, r.admin.CoreV1().Secrets(namespace).Delete(r.Context(), name, metav1.DeleteOptions{}))
}

func secretOf(name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"value": []byte(value)},
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

// awaitAllowed waits until the server allows, or no longer allows, a user to read a secret by name. The authorizers lag
// behind changes of roles and pods.
func (r *rig) awaitAllowed(user string, groups []string, name string, want bool) {
	r.Helper()
	r.eventually(fmt.Sprintf("%s may read secret %s: %v", user, name, want), func(ctx context.Context) error {
		for _, verb := range []string{"list", "watch"} {
			review, err := r.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups,
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Version: "v1", Resource: "secrets", Name: name,
					}},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if got := review.Status.Allowed; got != want {
				return fmt.Errorf("%s is allowed: got %v, want %v", verb, got, want)
			}
		}
		return nil
	})
}

// value returns an error unless a secret has that value.
func value(ctx context.Context, secrets *manager.Manager[*corev1.Secret], name, want string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	secret, err := secrets.Get(ctx, namespace, name)
	if err != nil {
		return err
	}
	if got := string(secret.Data["value"]); got != want {
		return fmt.Errorf("value of %s: got %q, want %q", name, got, want)
	}
	return nil
}

// wantValue fails the test unless a Get returns that value. eventuallyValue waits for it.
func (r *rig) wantValue(secrets *manager.Manager[*corev1.Secret], name, want string) {
	r.Helper()
	if err := value(r.Context(), secrets, name, want); err != nil {
		r.Error(err)
	}
}

func (r *rig) eventuallyValue(secrets *manager.Manager[*corev1.Secret], name, want string) {
	r.Helper()
	r.eventually("update", func(ctx context.Context) error { return value(ctx, secrets, name, want) })
}

// refused returns nil if a Get returns the server's 403 before its context ends, with the name of the object.
func refused[T cache.Object](ctx context.Context, m *manager.Manager[T], resource, name string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := m.Get(ctx, namespace, name)
	prefix := fmt.Sprintf("%s %q: ", resource, types.NamespacedName{Namespace: namespace, Name: name})
	switch {
	case !errors.Is(err, objectcache.ErrNotSynced) || !apierrors.IsForbidden(err):
		return fmt.Errorf("Get of %s %s: got error %w, want ErrNotSynced and Forbidden", resource, name, err)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("Get of %s %s: got %w when the context ended, want it before", resource, name, err)
	case !strings.HasPrefix(err.Error(), prefix):
		return fmt.Errorf("Get of %s %s: got error %w, want one that starts with %q", resource, name, err, prefix)
	}
	return nil
}

// wantForbidden fails the test unless err is Forbidden.
func (r *rig) wantForbidden(what string, err error) {
	r.Helper()
	if !apierrors.IsForbidden(err) {
		r.Errorf("%s: got error %v, want Forbidden", what, err)
	}
}
