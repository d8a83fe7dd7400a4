// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"fmt"
	"path/filepath"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// grantMeasured gives the operator its rights. If named, those on named Secrets take the place of all on Secrets.
func (m *measured) grantMeasured(named bool) {
	m.Helper()
	everywhere := append(m.rulesOf(filepath.Join(m.folder, "rbac")), m.Rights...)
	if named {
		everywhere = append(withoutSecrets(everywhere), m.Named[""]...)
		for namespace, rules := range m.Named {
			if namespace != "" {
				m.bindRole(namespace, rules)
			}
		}
	}
	_, err := m.admin.RbacV1().ClusterRoles().Create(m.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Rules: everywhere}, metav1.CreateOptions{})
	m.must(err)
	_, err = m.admin.RbacV1().ClusterRoleBindings().Create(m.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Subjects: operatorSubjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "operator"},
	}, metav1.CreateOptions{})
	m.must(err)
	m.awaitGranted(everywhere[0])
}

// bindRole gives the operator rights in a namespace.
func (m *measured) bindRole(namespace string, rules []rbacv1.PolicyRule) {
	m.Helper()
	_, err := m.admin.RbacV1().Roles(namespace).Create(m.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Rules: rules}, metav1.CreateOptions{})
	m.must(err)
	_, err = m.admin.RbacV1().RoleBindings(namespace).Create(m.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Subjects: operatorSubjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
	}, metav1.CreateOptions{})
	m.must(err)
}

func operatorSubjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "operator"}}
}

// awaitGranted waits until the operator has the rights of a rule: the authorizer lags behind a new binding.
func (m *measured) awaitGranted(rule rbacv1.PolicyRule) {
	m.Helper()
	m.eventually("the operator has its rights", func(ctx context.Context) error {
		review, err := m.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: rule.Verbs[0], Group: rule.APIGroups[0], Version: "*", Resource: rule.Resources[0],
			}},
		}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("got %+v, want that it is allowed", review.Status)
		}
		return err
	})
}
