// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/internal/names"
)

// Objects are objects of one resource that a program reads. The values of [Secrets],
// [ConfigMaps] and [Of] can be changed.
type Objects struct {
	// Resource is that of a path: plural, and in lower case.
	Resource schema.GroupVersionResource
	// ClusterScoped is set if the objects have no namespace.
	ClusterScoped bool
	// Verbs are what the program does with the objects. Default: get, list and watch. A store
	// that watches needs list and watch. With get a first Get is answered sooner, and objects are
	// read where lists and watches fail. To leave it out, set Verbs to list and watch: they reveal
	// no less of an object. Other stores need get alone: see [Of].
	Verbs []string
	// Keys name the objects. Without keys nothing is needed, nor for a key that no object can
	// have: no request is sent for it.
	Keys []types.NamespacedName
}

// Secrets are Secrets that an [objectcache.WatchStore] reads.
func Secrets(keys ...types.NamespacedName) Objects {
	return Objects{Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Keys: keys}
}

// ConfigMaps are ConfigMaps that an [objectcache.WatchStore] reads.
func ConfigMaps(keys ...types.NamespacedName) Objects {
	return Objects{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Keys: keys}
}

// Store is the part of a store that [Of] needs.
type Store interface {
	Permissions() objectcache.Permissions
}

// Of returns objects that a store reads, with the verbs of its requests. For what the
// owners of a manager reference, call its method Access.
func Of(store Store, keys ...types.NamespacedName) Objects {
	needs := store.Permissions()
	return Objects{Resource: needs.Resource, ClusterScoped: needs.ClusterScoped, Verbs: needs.Verbs, Keys: keys}
}

func (o Objects) name() names.Resource {
	return names.Resource{GroupVersionResource: o.Resource, ClusterScoped: o.ClusterScoped}
}

func (o Objects) verbs() []string {
	if len(o.Verbs) == 0 {
		return []string{"get", "list", "watch"}
	}
	return slices.Clone(o.Verbs)
}

// namesByNamespace returns the sorted, unique names in each namespace, without those that no object
// can have, and an error if the resource is invalid.
func (o Objects) namesByNamespace() (map[string][]string, error) {
	if err := o.name().Check(); err != nil {
		return nil, fmt.Errorf("resource %q: %w", o.name(), err)
	}
	names := map[string][]string{}
	for _, key := range o.Keys {
		if o.name().CheckKey(key) == nil {
			names[key.Namespace] = append(names[key.Namespace], key.Name)
		}
	}
	for namespace := range names {
		slices.Sort(names[namespace])
		names[namespace] = slices.Compact(names[namespace])
	}
	return names, nil
}

// rule returns the rule that allows the verbs for the named objects.
func (o Objects) rule(names []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups:     []string{o.Resource.Group},
		Resources:     []string{o.Resource.Resource},
		ResourceNames: names,
		Verbs:         o.verbs(),
	}
}
