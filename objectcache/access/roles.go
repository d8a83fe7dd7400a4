// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// Roles returns the permissions that a program needs to read objects, and no others: one
// Role of the given name per namespace, with a rule for each resource. In RBAC a rule with
// resourceNames matches a list or watch with the field selector metadata.name=NAME, and a
// store sends no others. The Roles have the verb get, too, unless [Objects].Verbs leaves it out.
//
//	roles, err := access.Roles("gateway", access.Secrets(keys...))
//
// The Roles are sorted by namespace, the names in each rule are sorted and unique. Without
// keys there are no Roles, because a rule without resourceNames allows every object. A key
// that no object can have needs no permission, and is left out. The error is
// [objectcache.ErrInvalidName] for an empty name. An invalid resource, and one of a
// cluster-scoped kind, is an error too: see [ClusterRoles]. No request is sent.
func Roles(name string, objects ...Objects) ([]rbacv1.Role, error) {
	rules, err := rulesOf(name, objects, false)
	if err != nil {
		return nil, err
	}
	var roles []rbacv1.Role
	for _, namespace := range slices.Sorted(maps.Keys(rules)) {
		roles = append(roles, rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Rules:      rules[namespace],
		})
	}
	return roles, nil
}

// ClusterRoles is [Roles] for cluster-scoped kinds: one ClusterRole of the given name, and
// none without keys.
func ClusterRoles(name string, objects ...Objects) ([]rbacv1.ClusterRole, error) {
	rules, err := rulesOf(name, objects, true)
	if err != nil || len(rules[""]) == 0 {
		return nil, err
	}
	return []rbacv1.ClusterRole{{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      rules[""],
	}}, nil
}

// rulesOf returns the rules that allow the objects, by namespace.
func rulesOf(name string, all []Objects, clusterScoped bool) (map[string][]rbacv1.PolicyRule, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: the name of the Roles may not be empty", objectcache.ErrInvalidName)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, objects := range all {
		names, err := objects.namesByNamespace()
		switch {
		case err != nil:
			return nil, err
		case objects.ClusterScoped && !clusterScoped:
			return nil, fmt.Errorf("resource %q: its kind is cluster-scoped: call ClusterRoles", objects.name())
		case !objects.ClusterScoped && clusterScoped:
			return nil, fmt.Errorf("resource %q: its kind is namespaced: call Roles", objects.name())
		}
		for namespace, names := range names {
			rules[namespace] = append(rules[namespace], objects.rule(names))
		}
	}
	return rules, nil
}
