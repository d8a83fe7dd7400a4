// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
)

// CustomResource defines a resource that a server serves beside the built-in ones. The server behaves as with a
// CustomResourceDefinition whose schema preserves unknown fields: it stores every field, and serves objects in JSON and
// YAML, metadata also in protobuf.
type CustomResource struct {
	// Group and Version are those of the API, as in "/apis/GROUP/VERSION". The group is a DNS subdomain.
	Group, Version string
	// Resource is the plural name in paths, a DNS label such as "widgets".
	Resource string
	// Kind is the kind of the objects, such as "Widget". The kind of lists ends in "List".
	Kind string
	// ClusterScoped is true if the objects are in no namespace.
	ClusterScoped bool
	// StatusSubresource serves "/status": only it writes the field status, and it writes no other field. Default: there
	// are no subresources, and status is a field like any other.
	StatusSubresource bool
}

// validate returns an error if a name is one that a CustomResourceDefinition could not have.
func (r CustomResource) validate() error {
	problems := validation.IsDNS1123Subdomain(r.Group)
	problems = append(problems, validation.IsDNS1035Label(r.Version)...)
	problems = append(problems, validation.IsDNS1035Label(r.Resource)...)
	problems = append(problems, validation.IsDNS1035Label(strings.ToLower(r.Kind))...)
	if len(problems) > 0 {
		return fmt.Errorf("apiserver: custom resource %+v: %s", r, strings.Join(problems, "; "))
	}
	return nil
}

func (r CustomResource) resource() *resource {
	gv := schema.GroupVersion{Group: r.Group, Version: r.Version}
	prototype := &unstructured.Unstructured{}
	prototype.SetGroupVersionKind(gv.WithKind(r.Kind))
	res := &resource{
		groupVersion: gv,
		name:         r.Resource, singular: strings.ToLower(r.Kind), kind: r.Kind, prototype: prototype,
		namespaced: !r.ClusterScoped, custom: true, updateNeedsVersion: true,
		fieldLabels: func(object) fields.Set { return fields.Set{} },
		prepare:     prepareCustom,
	}
	if r.StatusSubresource {
		res.subresources = []string{"status"}
		res.prepare = prepareCustomWithStatus
	}
	return res
}

// prepareCustomWithStatus keeps everything but the status on an update of the status, and the old status on any other
// write.
func prepareCustomWithStatus(obj, old object, subresource string) {
	content := obj.(*unstructured.Unstructured)
	var before *unstructured.Unstructured
	if old != nil {
		before = old.(*unstructured.Unstructured)
	}
	if subresource == "status" {
		written := content.Object
		content.Object = before.DeepCopy().Object
		copyField(content.Object, written, "status")
		return
	}
	if before == nil {
		delete(content.Object, "status")
	} else {
		copyField(content.Object, before.DeepCopy().Object, "status")
	}
	prepareCustom(obj, old, subresource)
}

// copyField sets a field of to as in from, and removes it if from does not have it.
func copyField(to, from map[string]any, field string) {
	if value, ok := from[field]; ok {
		to[field] = value
	} else {
		delete(to, field)
	}
}

// prepareCustom raises the generation when anything but the metadata changes.
func prepareCustom(obj, old object, _ string) {
	switch {
	case old == nil:
		obj.SetGeneration(1)
	case !equality.Semantic.DeepEqual(withoutMetadata(obj), withoutMetadata(old)):
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

func withoutMetadata(obj object) map[string]any {
	content := maps.Clone(obj.(*unstructured.Unstructured).Object)
	delete(content, "metadata")
	return content
}

// checkMetadata returns an error if the metadata of obj has a field of the wrong type. The methods of Unstructured
// would ignore it.
func checkMetadata(obj *unstructured.Unstructured) error {
	content, ok := obj.Object["metadata"].(map[string]any)
	if !ok && obj.Object["metadata"] != nil {
		return fmt.Errorf("metadata is a %T, not an object", obj.Object["metadata"])
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, &metav1.ObjectMeta{})
}

// customListOf returns a list of custom resources. Unlike typed items, they have a TypeMeta in a list too. The list
// shares the contents of objects.
func customListOf(gvk schema.GroupVersionKind, objects []object, list metav1.ListMeta) *unstructured.UnstructuredList {
	out := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, len(objects))}
	for i, obj := range objects {
		out.Items[i] = *obj.(*unstructured.Unstructured)
	}
	out.SetGroupVersionKind(gvk)
	out.SetResourceVersion(list.ResourceVersion)
	out.SetContinue(list.Continue)
	out.SetRemainingItemCount(list.RemainingItemCount)
	return out
}

// customMediaTypes are the media types in which a client may send a custom resource. The first is the default.
var customMediaTypes = func() []runtime.SerializerInfo {
	var infos []runtime.SerializerInfo
	for _, info := range mediaTypes {
		if info.MediaType == runtime.ContentTypeProtobuf {
			continue
		}
		serializer := func(strict bool) runtime.Serializer {
			return json.NewSerializerWithOptions(json.DefaultMetaFactory, unstructuredscheme.NewUnstructuredCreator(),
				unstructuredscheme.NewUnstructuredObjectTyper(),
				json.SerializerOptions{Yaml: info.MediaType == runtime.ContentTypeYAML, Strict: strict})
		}
		info.Serializer, info.StrictSerializer = serializer(false), serializer(true)
		infos = append(infos, info)
	}
	return infos
}()
