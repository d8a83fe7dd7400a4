// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Roles for references.

// Roles returns the permissions that a store of this resource needs for the given
// objects, and no others: one Role of the given name per namespace, which allows
// list and watch of the named objects. In RBAC a rule with resourceNames matches a
// list or watch with the field selector metadata.name=NAME, and a store sends no
// others. A [TTLStore] or a [DirectStore] needs get instead: see [TTLStore.Roles].
//
// The Roles are sorted by namespace, the names in each Role are sorted and unique.
// Without keys there are no Roles, because a rule without resourceNames allows
// every object. The error is [ErrInvalidName] for a key that no object can have,
// and for an empty name. A Resource with an invalid name, or of a cluster-scoped kind,
// is an error too: see [Resource.ClusterRoles]. Roles needs no client:
//
//	objectcache.Secrets(nil).Roles("gateway", keys...)
//	objectcache.Dynamic(nil, widgets).Roles("gateway", keys...) // for any kind
func (r Resource[T]) Roles(name string, keys ...types.NamespacedName) ([]rbacv1.Role, error) {
	return r.rolesFor(watchVerbs, name, keys)
}

// ClusterRoles is [Resource.Roles] for a cluster-scoped kind: one ClusterRole of the
// given name, and none without keys.
func (r Resource[T]) ClusterRoles(name string, keys ...types.NamespacedName) ([]rbacv1.ClusterRole, error) {
	return r.clusterRolesFor(watchVerbs, name, keys)
}

var (
	watchVerbs = []string{"list", "watch"} // of a store that watches
	readVerbs  = []string{"get"}           // of the other stores
)

// rolesFor is Roles for other verbs.
func (r *Resource[T]) rolesFor(verbs []string, name string, keys []types.NamespacedName) ([]rbacv1.Role, error) {
	if r.clusterScoped {
		return nil, fmt.Errorf("resource %q: its kind is cluster-scoped: call ClusterRoles", r.resource)
	}
	rules, err := r.rules(name, verbs, keys)
	if err != nil {
		return nil, err
	}
	return rolesOf(name, rules), nil
}

// clusterRolesFor is ClusterRoles for other verbs.
func (r *Resource[T]) clusterRolesFor(verbs []string, name string, keys []types.NamespacedName) ([]rbacv1.ClusterRole, error) {
	if !r.clusterScoped {
		return nil, fmt.Errorf("resource %q: its kind is namespaced: call Roles", r.resource)
	}
	rules, err := r.rules(name, verbs, keys)
	if err != nil {
		return nil, err
	}
	return clusterRolesOf(name, rules), nil
}

// rules returns the rules that allow the verbs for the given objects, by namespace.
func (r *Resource[T]) rules(name string, verbs []string, keys []types.NamespacedName) (map[string][]rbacv1.PolicyRule, error) {
	if err := r.checkName(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errNoRoleName
	}
	names, err := r.namesByNamespace(keys)
	if err != nil {
		return nil, err
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for namespace, names := range names {
		rules[namespace] = []rbacv1.PolicyRule{r.rule(verbs, names)}
	}
	return rules, nil
}

var errNoRoleName = fmt.Errorf("%w: the name of the Roles may not be empty", ErrInvalidName)

// namesByNamespace returns the sorted, unique names in each namespace.
func (r *Resource[T]) namesByNamespace(keys []types.NamespacedName) (map[string][]string, error) {
	names := map[string][]string{}
	for _, key := range keys {
		if err := r.validateKey(key); err != nil {
			return nil, err
		}
		names[key.Namespace] = append(names[key.Namespace], key.Name)
	}
	for namespace := range names {
		slices.Sort(names[namespace])
		names[namespace] = slices.Compact(names[namespace])
	}
	return names, nil
}

// rule returns the rule that allows the verbs for the named objects.
func (r *Resource[T]) rule(verbs, names []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups:     []string{r.resource.Group},
		Resources:     []string{r.resource.Resource},
		ResourceNames: names,
		Verbs:         slices.Clone(verbs),
	}
}

// rolesOf returns a Role for each namespace, sorted.
func rolesOf(name string, rules map[string][]rbacv1.PolicyRule) (roles []rbacv1.Role) {
	for _, namespace := range slices.Sorted(maps.Keys(rules)) {
		if namespace == "" {
			continue
		}
		roles = append(roles, rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Rules:      rules[namespace],
		})
	}
	return roles
}

// clusterRolesOf returns a ClusterRole for the rules without a namespace, if there are
// any.
func clusterRolesOf(name string, rules map[string][]rbacv1.PolicyRule) []rbacv1.ClusterRole {
	if len(rules[""]) == 0 {
		return nil
	}
	return []rbacv1.ClusterRole{{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      rules[""],
	}}
}

// Roles returns the permissions that the store needs for the given objects: see
// [Resource.Roles].
func (s *WatchStore[T]) Roles(name string, keys ...types.NamespacedName) ([]rbacv1.Role, error) {
	return s.resource.Roles(name, keys...)
}

// ClusterRoles is Roles for a cluster-scoped kind: see [Resource.ClusterRoles].
func (s *WatchStore[T]) ClusterRoles(name string, keys ...types.NamespacedName) ([]rbacv1.ClusterRole, error) {
	return s.resource.ClusterRoles(name, keys...)
}
