// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Roles returns what a store of this resource must be allowed to do for those
// objects, and no more: in each namespace a Role of the given name that admits
// list and watch of the named objects. RBAC lets a resourceNames rule match a
// list or watch whose field selector is metadata.name=NAME, which is the only
// kind that a store sends.
//
// Roles are in the order of their namespaces, names in order within; a key
// given twice counts once. Without keys there are no Roles: a rule without
// resourceNames would admit every object. The error is [ErrInvalidName] for a
// key that no object can have and for an empty name of the Roles; a resource that
// is wrongly named is an error too.
// No client is needed:
//
//	objectcache.Secrets(nil).Roles("gateway", keys...)
//	objectcache.Dynamic(nil, widgets).Roles("gateway", keys...) // for any kind
func (r Resource[T]) Roles(name string, keys ...types.NamespacedName) ([]rbacv1.Role, error) {
	if err := r.named(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fmt.Errorf("%w: the name of the Roles may not be empty", ErrInvalidName)
	}
	names := map[string][]string{}
	for _, key := range keys {
		if err := r.validate(key); err != nil {
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
				Verbs:         []string{"list", "watch"},
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
