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

// resource describes one resource and the behaviour of its kind. The behaviour that all kinds share (names, versions,
// conflicts, finalizers) is in write.go and delete.go.
type resource struct {
	groupVersion         schema.GroupVersion
	name, singular, kind string
	prototype            object // an empty object of the kind
	shortNames           []string
	categories           []string
	subresources         []string
	namespaced           bool
	// custom is true for a custom resource, whose objects are of type Unstructured.
	custom bool
	// updateNeedsVersion is true if an update must name the resourceVersion that it replaces.
	updateNeedsVersion bool
	// returnsDeleted is true if the response to a deletion is the object instead of a Status.
	returnsDeleted bool

	// answer responds to a create. If it is not nil, objects are not stored, and there are no other verbs.
	answer func(*call) error

	// fieldLabels returns the object's values of the field labels other than metadata.name and metadata.namespace.
	fieldLabels func(object) fields.Set
	// prepare sets defaults, resets the fields that the request cannot write, and merges write-only fields. old is nil
	// on creation. subresource is empty for the object itself.
	prepare func(obj, old object, subresource string)
	// validate returns the errors in obj. Its arguments are those of prepare.
	validate func(obj, old object, subresource string) field.ErrorList
	// columns are the columns of a table between NAME and AGE. cells returns their values for an object.
	columns []metav1.TableColumnDefinition
	cells   func(object) []any
}

// builtInResources are the resources of every server, in the order of discovery.
var builtInResources = []*resource{
	configMaps, namespaces, nodes, pods, secrets, serviceAccounts, selfSubjectAccessReviews, leases, ingresses,
}

var serviceAccounts = &resource{
	groupVersion: corev1.SchemeGroupVersion,
	name:         "serviceaccounts", singular: "serviceaccount", kind: "ServiceAccount", prototype: &corev1.ServiceAccount{}, shortNames: []string{"sa"},
	subresources: []string{"token"},
	namespaced:   true, returnsDeleted: true,
}

func (r *resource) gvk() schema.GroupVersionKind { return r.groupVersion.WithKind(r.kind) }

func (r *resource) gvr() schema.GroupVersionResource { return r.groupVersion.WithResource(r.name) }

func (r *resource) groupResource() schema.GroupResource { return r.gvr().GroupResource() }

func (r *resource) hasSubresource(name string) bool {
	return slices.Contains(r.subresources, name)
}

func (r *resource) verbs() metav1.Verbs {
	if r.answer != nil {
		return metav1.Verbs{"create"}
	}
	return metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// mediaTypes returns the media types in which a client may send an object. The first is the default.
func (r *resource) mediaTypes() []runtime.SerializerInfo {
	if r.custom {
		return customMediaTypes
	}
	return mediaTypes
}

// newObject returns an empty object of the kind, with its TypeMeta set.
func (r *resource) newObject() object {
	obj := r.prototype.DeepCopyObject().(object)
	obj.GetObjectKind().SetGroupVersionKind(r.gvk())
	return obj
}

// selectableFields returns the fields of obj that a field selector may name.
func (r *resource) selectableFields(obj object) fields.Set {
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

// checkFieldLabel returns an error for a field label that the kind does not have. The text is kube-apiserver's, which
// differs between kinds with field labels of their own and kinds without.
func (r *resource) checkFieldLabel(label, value string) (string, string, error) {
	if _, ok := r.selectableFields(r.newObject())[label]; ok {
		return label, value, nil
	}
	if r.fieldLabels == nil {
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// setDefault sets target to value if it is zero.
func setDefault[T comparable](target *T, value T) {
	var zero T
	if *target == zero {
		*target = value
	}
}
