// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Roles returns the permissions that a store of this resource needs for the given
// objects, and no others: one Role of the given name per namespace, which allows
// list and watch of the named objects. In RBAC a rule with resourceNames matches a
// list or watch with the field selector metadata.name=NAME, and a store sends no
// others. A [TTLStore] or a [DirectStore] needs get instead: see [TTLStore.Roles].
//
// The Roles are sorted by namespace, the names in each Role are sorted and unique.
// Without keys there are no Roles, because a rule without resourceNames allows
// every object. The error is [ErrInvalidName] for a key that no object can have,
// and for an empty name. A Resource with an invalid name is an error too.
// Roles needs no client:
//
//	objectcache.Secrets(nil).Roles("gateway", keys...)
//	objectcache.Dynamic(nil, widgets).Roles("gateway", keys...) // for any kind
func (r Resource[T]) Roles(name string, keys ...types.NamespacedName) ([]rbacv1.Role, error) {
	return r.rolesFor([]string{"list", "watch"}, name, keys)
}

// rolesFor is Roles for other verbs.
func (r *Resource[T]) rolesFor(verbs []string, name string, keys []types.NamespacedName) ([]rbacv1.Role, error) {
	if err := r.checkName(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fmt.Errorf("%w: the name of the Roles may not be empty", ErrInvalidName)
	}
	names := map[string][]string{}
	for _, key := range keys {
		if err := r.validateKey(key); err != nil {
			return nil, err
		}
		names[key.Namespace] = append(names[key.Namespace], key.Name)
	}
	var roles []rbacv1.Role
	for namespace, names := range names {
		slices.Sort(names)
		roles = append(roles, rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Rules: []rbacv1.PolicyRule{{
				APIGroups:     []string{r.resource.Group},
				Resources:     []string{r.resource.Resource},
				ResourceNames: slices.Compact(names),
				Verbs:         verbs,
			}},
		})
	}
	slices.SortFunc(roles, func(a, b rbacv1.Role) int {
		if a.Namespace < b.Namespace {
			return -1
		}
		return 1
	})
	return roles, nil
}

// Roles returns the permissions that the store needs for the given objects: see
// [Resource.Roles].
func (s *WatchStore[T]) Roles(name string, keys ...types.NamespacedName) ([]rbacv1.Role, error) {
	return s.resource.Roles(name, keys...)
}
