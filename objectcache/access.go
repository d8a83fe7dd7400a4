// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Denied is a permission that the user of a client does not have.
type Denied struct {
	// Namespace is that of the objects; empty for a cluster-scoped kind.
	Namespace string
	// Rule allows what is denied, and no more.
	Rule rbacv1.PolicyRule
	// Reason is that of the server. It is often empty: RBAC gives a reason for what it
	// allows only.
	Reason string
}

// String returns a line for the log of a program.
func (d Denied) String() string {
	text := fmt.Sprintf("%s of %s %s is not allowed", strings.Join(d.Rule.Verbs, ", "), d.Rule.Resources[0], strings.Join(d.Rule.ResourceNames, ", "))
	if d.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", d.Namespace)
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// Denials are the permissions that a program lacks, also of several kinds.
type Denials []Denied

// Roles returns the Roles that add what is denied in namespaces: one of the given name
// per namespace, sorted. The error is [ErrInvalidName] for an empty name.
func (d Denials) Roles(name string) ([]rbacv1.Role, error) {
	if name == "" {
		return nil, errNoRoleName
	}
	return rolesOf(name, d.rules()), nil
}

// ClusterRoles returns the ClusterRole that adds what is denied of cluster-scoped kinds,
// and none if nothing is. The error is that of Roles.
func (d Denials) ClusterRoles(name string) ([]rbacv1.ClusterRole, error) {
	if name == "" {
		return nil, errNoRoleName
	}
	return clusterRolesOf(name, d.rules()), nil
}

func (d Denials) rules() map[string][]rbacv1.PolicyRule {
	rules := map[string][]rbacv1.PolicyRule{}
	for _, denied := range d {
		rules[denied.Namespace] = append(rules[denied.Namespace], denied.Rule)
	}
	return rules
}

// CheckAccess asks the server which permissions the user of a client lacks for the given
// objects, before a Get fails for them. Without verbs these are list and watch, which a
// store needs that watches; other stores need get. The result is sorted; it is empty if
// the user may read all of the objects.
//
//	reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
//	denied, err := objectcache.Secrets(nil).CheckAccess(ctx, reviews, nil, keys...)
//	roles, err := denied.Roles("gateway") // to be applied
//
// Each question is a SelfSubjectAccessReview, which Kubernetes allows to every
// authenticated user. Of several objects in one namespace, CheckAccess first asks for the
// whole namespace, and for each object only if that is denied. At most eight requests are
// under way at a time.
//
// The error is [ErrInvalidName] for a key that no object can have, that of ctx, or the
// first one of the server; then nothing is known.
func (r Resource[T]) CheckAccess(ctx context.Context, reviews typedauthorizationv1.SelfSubjectAccessReviewInterface, verbs []string, keys ...types.NamespacedName) (Denials, error) {
	names, err := r.namesByNamespace(keys)
	if err != nil {
		return nil, err
	}
	if len(verbs) == 0 {
		verbs = watchVerbs
	}
	check, err := r.newAccessCheck(ctx, reviews)
	if err != nil {
		return nil, err
	}
	whole, err := check.ask(ctx, wholeNamespaces(names, verbs))
	if err != nil {
		return nil, err
	}
	each, err := check.ask(ctx, eachObject(names, verbs, whole))
	if err != nil {
		return nil, err
	}
	var denials Denials
	for _, group := range groupDenied(each) {
		denials = append(denials, Denied{group.namespace, r.rule(group.verbs, group.names), group.reason})
	}
	return denials, nil
}

// AllowedNamespace reports whether the user of a client may list and watch the objects of
// all names in a namespace. The namespace is empty for a cluster-scoped kind. The errors
// are those of [Resource.CheckAccess].
func (r Resource[T]) AllowedNamespace(ctx context.Context, reviews typedauthorizationv1.SelfSubjectAccessReviewInterface, namespace string) (bool, error) {
	if problems := r.namespaceProblems(namespace); len(problems) > 0 {
		return false, fmt.Errorf("resource %q: %w: %q: %s", r.resource, ErrInvalidName, namespace, strings.Join(problems, "; "))
	}
	check, err := r.newAccessCheck(ctx, reviews)
	if err != nil {
		return false, err
	}
	var questions []access
	for _, verb := range watchVerbs {
		questions = append(questions, access{namespace: namespace, verb: verb})
	}
	answers, err := check.ask(ctx, questions)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(answers, func(a answer) bool { return !a.allowed }), nil
}
