// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/refwatch/refwatch/objectcache"
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
// per namespace, sorted. They do not hold what is allowed already, so give them a name of
// their own, and bind them as well. The error is [objectcache.ErrInvalidName] for an empty
// name.
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

// Check asks the server which permissions the user of a client lacks to read objects,
// before a Get fails for them. The result is in the order of the arguments, and sorted for
// each of them; it is empty if the user may read all of the objects.
//
//	reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
//	denied, err := access.Check(ctx, reviews, access.Secrets(keys...))
//	roles, err := denied.Roles("gateway") // to be applied
//
// Each question is a SelfSubjectAccessReview, which Kubernetes allows to every
// authenticated user. Of several objects in one namespace, Check first asks for the whole
// namespace, and for each object only if that is denied. At most eight requests are under
// way at a time.
//
// A key that no object can have needs no permission. The error is that of ctx, or the
// first one of the server; then nothing is known.
func Check(ctx context.Context, reviews typedauthorizationv1.SelfSubjectAccessReviewInterface, objects ...Objects) (Denials, error) {
	var all Denials
	for _, objects := range objects {
		denied, err := check(ctx, reviews, objects)
		if err != nil {
			return nil, err
		}
		all = append(all, denied...)
	}
	return all, nil
}

// check is Check for one resource.
func check(ctx context.Context, reviews typedauthorizationv1.SelfSubjectAccessReviewInterface, objects Objects) (Denials, error) {
	names, err := objects.namesByNamespace()
	if err != nil {
		return nil, err
	}
	reviewer, err := newReviewer(ctx, reviews, objects.Resource)
	if err != nil {
		return nil, err
	}
	whole, err := reviewer.ask(ctx, wholeNamespaces(names, objects.verbs()))
	if err != nil {
		return nil, err
	}
	each, err := reviewer.ask(ctx, eachObject(names, objects.verbs(), whole))
	if err != nil {
		return nil, err
	}
	var denials Denials
	for _, group := range groupDenied(each) {
		denials = append(denials, Denied{group.namespace, objects.rule(group.verbs, group.names), group.reason})
	}
	return denials, nil
}

// AllowedNamespace reports whether the user of a client may list and watch the objects of
// all names in a namespace. An empty namespace stands for the whole cluster, also for a
// namespaced kind. The errors are those of [Check], and [objectcache.ErrInvalidName] for a
// namespace that cannot exist.
func AllowedNamespace(ctx context.Context, reviews typedauthorizationv1.SelfSubjectAccessReviewInterface, resource schema.GroupVersionResource, namespace string) (bool, error) {
	objects := Objects{Resource: resource}
	if err := objects.check(); err != nil {
		return false, err
	}
	if problems := validation.ValidateNamespaceName(namespace, false); namespace != "" && len(problems) > 0 {
		return false, fmt.Errorf("resource %q: %w: namespace %q: %s", objects.name(), objectcache.ErrInvalidName, namespace, strings.Join(problems, "; "))
	}
	reviewer, err := newReviewer(ctx, reviews, resource)
	if err != nil {
		return false, err
	}
	var questions []question
	for _, verb := range objects.verbs() {
		questions = append(questions, question{namespace: namespace, verb: verb})
	}
	answers, err := reviewer.ask(ctx, questions)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(answers, func(a answer) bool { return !a.allowed }), nil
}
