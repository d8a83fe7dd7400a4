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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// patience bounds a wait for what must happen; a test that passes does not feel it.
	patience = time.Minute

	// namespace holds everything of a test.
	namespace = "shop"

	// byHand is the user agent of requests that a test makes under the library's identity, for contrast. They
	// are told apart by it in the audit log.
	byHand = "by-hand"
)

// rig is a control plane and an administrator on it.
type rig struct {
	*testing.T

	cluster *e2e.Cluster
	admin   kubernetes.Interface
}

func newRig(t *testing.T, options e2e.Options) *rig {
	t.Helper()
	r := &rig{T: t, cluster: e2e.New(t, options)}
	r.admin = r.client(r.cluster.Admin())
	r.must(r.admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	return r
}

func (r *rig) client(config *rest.Config) kubernetes.Interface {
	r.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		r.Fatal(err)
	}
	return client
}

// must fails the test if something done as administrator went wrong.
func (r *rig) must(_ any, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// eventually waits until look returns nil, and otherwise fails with what it returned last.
func (r *rig) eventually(what string, look func(context.Context) error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = look(ctx)
		return last == nil, nil
	})
	if err != nil {
		r.Fatalf("%s: still not so after %v: %v", what, patience, last)
	}
}

// run runs a store or manager until the function it returns is called, which waits for the end.
func (r *rig) run(runner interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	return func() {
		r.Helper()
		cancel()
		if err := <-done; err != nil {
			r.Errorf("Run: got error %v, want none", err)
		}
	}
}

// createSecret and setSecret give a secret the one key "value".
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

// awaitAllowed waits until the server's authorizers, which follow changes of roles and pods at a distance, let a
// user read an object by name, or do not any more.
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

// value fails unless a secret is known to have that value.
func value(ctx context.Context, secrets *manager.Manager[*corev1.Secret], name, want string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// wantValue wants a Get to have that value at once, eventuallyValue in the end.
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

// refused returns nil if a Get is refused as it must be: for the server's 403 and not because time was up, with
// an error that says which object.
func refused[T cache.Object](ctx context.Context, m *manager.Manager[T], resource, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := m.Get(ctx, namespace, name)
	prefix := fmt.Sprintf("%s %q: ", resource, types.NamespacedName{Namespace: namespace, Name: name})
	switch {
	case !errors.Is(err, objectcache.ErrNotSynced) || !apierrors.IsForbidden(err):
		return fmt.Errorf("Get of %s %s: got error %w, want ErrNotSynced and Forbidden", resource, name, err)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("Get of %s %s: got %w when time was up, want it before", resource, name, err)
	case !strings.HasPrefix(err.Error(), prefix):
		return fmt.Errorf("Get of %s %s: got error %w, want its text to begin with %q", resource, name, err, prefix)
	}
	return nil
}

// wantForbidden checks a request made by hand.
func (r *rig) wantForbidden(what string, err error) {
	r.Helper()
	if !apierrors.IsForbidden(err) {
		r.Errorf("%s: got error %v, want Forbidden", what, err)
	}
}
