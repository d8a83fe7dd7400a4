// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resource describes one served resource of core/v1 and what is particular to its kind. What all kinds have
// in common (names, versions, conflicts, finalizers) is in write.go and delete.go.
type resource struct {
	name, singular, kind string
	prototype            object // an empty object of the kind
	shortNames           []string
	categories           []string
	subresources         []string
	namespaced           bool
	// returnsDeleted: a deletion answers with the object instead of a Status.
	returnsDeleted bool

	// fieldLabels are the field selectors beside metadata.name (and metadata.namespace), with the value of
	// each for an object.
	fieldLabels func(object) fields.Set
	// prepare fills in defaults and folds what is write-only; old is nil on creation, subresource empty for
	// the object itself.
	prepare func(obj, old object, subresource string)
	// validate returns what is wrong with obj; the arguments are those of prepare.
	validate func(obj, old object, subresource string) field.ErrorList
	// columns are those between NAME and AGE of a table, cells their values for an object.
	columns []metav1.TableColumnDefinition
	cells   func(object) []any
}

// allResources is what the server serves, in the order of discovery. The descriptions never change.
var allResources = []*resource{configMaps, namespaces, nodes, pods, secrets, serviceAccounts}

var serviceAccounts = &resource{
	name: "serviceaccounts", singular: "serviceaccount", kind: "ServiceAccount", prototype: &corev1.ServiceAccount{}, shortNames: []string{"sa"},
	subresources: []string{"token"},
	namespaced:   true, returnsDeleted: true,
}

func (r *resource) gvk() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(r.kind) }

func (r *resource) groupResource() schema.GroupResource { return corev1.Resource(r.name) }

func (r *resource) hasSubresource(name string) bool {
	return slices.Contains(r.subresources, name)
}

// newObject returns an empty object of the kind, with its TypeMeta set.
func (r *resource) newObject() object {
	obj := r.prototype.DeepCopyObject().(object)
	obj.GetObjectKind().SetGroupVersionKind(r.gvk())
	return obj
}

// selectable returns the fields a field selector may name.
func (r *resource) selectable(obj object) fields.Set {
	set := fields.Set{}
	if r.fieldLabels != nil {
		set = r.fieldLabels(obj)
	}
	set["metadata.name"] = obj.GetName()
	if r.namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set
}

// checkFieldLabel refuses field selectors that the kind does not have, in kube-apiserver's words, which
// differ between kinds that have labels of their own and those that have none.
func (r *resource) checkFieldLabel(label, value string) (string, string, error) {
	if _, ok := r.selectable(r.newObject())[label]; ok {
		return label, value, nil
	}
	if r.fieldLabels == nil {
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// setDefault writes value where nothing is said.
func setDefault[T comparable](target *T, value T) {
	var zero T
	if *target == zero {
		*target = value
	}
}
