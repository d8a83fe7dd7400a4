// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// selection says which objects of a resource a list or watch returns.
type selection struct {
	resource        *resource
	namespace, name string          // empty: any
	labels          labels.Selector // never nil
	fields          fields.Selector // never nil; without what namespace and name already select
}

// newSelection combines the namespace of the path with the selectors of the query. As in kube-apiserver, a namespace or
// name that the field selector requires is used for a lookup instead of a comparison.
func newSelection(r *resource, namespace string, l labels.Selector, f fields.Selector) *selection {
	sel := &selection{resource: r, namespace: namespace, labels: labels.Everything(), fields: fields.Everything()}
	if l != nil {
		sel.labels = l
	}
	if f == nil {
		return sel
	}
	if name, ok := f.RequiresExactMatch("metadata.name"); ok {
		sel.name = name
	}
	if ns, ok := f.RequiresExactMatch("metadata.namespace"); ok && namespace == "" && r.namespaced {
		sel.namespace = ns
	}
	if len(f.Requirements()) > 1 || sel.name == "" {
		sel.fields = f
	}
	return sel
}

func (s *selection) matches(obj object) bool {
	if s.name != "" && obj.GetName() != s.name || s.namespace != "" && obj.GetNamespace() != s.namespace {
		return false
	}
	if !s.labels.Empty() && !s.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return s.fields.Empty() || s.fields.Matches(s.resource.selectableFields(obj))
}

// scope returns the key of the narrowest entry in table.watchers that covers the selection.
func (s *selection) scope() types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: s.name}
}

// single returns the only key that the selection can match, and whether there is only one.
func (s *selection) single() (types.NamespacedName, bool) {
	return s.scope(), s.name != "" && (s.namespace != "" || !s.resource.namespaced)
}

// everything reports whether the selection matches every object in its namespace.
func (s *selection) everything() bool { return s.name == "" && s.labels.Empty() && s.fields.Empty() }
