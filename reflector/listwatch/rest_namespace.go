// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"math"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const noLimit = math.MaxInt64 - 1

// pageSize is how many objects a page of a list has. It is that of client-go's pager.
const pageSize = 500

// FromRESTNamespace returns the source of the objects in a namespace whose names are
// wanted. It lists and watches the whole namespace, so RBAC allows its requests only by
// a rule without resourceNames, and the Node authorizer does not allow them.
//
// An object that is not wanted is dropped by its name. In a watch in protobuf its bytes
// are not decoded; in JSON they are parsed once. A list is read in pages of 500, and each
// page is decoded. Nothing of a dropped object is kept. A dropped event does not
// reach the reflector, whose version then advances with the next bookmark.
//
// wanted is called once or twice for each object that the server sends, in the
// goroutine that decodes it: that of Next, TryNext or List. It must return soon. An event that
// was dropped does not come again: a name that becomes wanted later needs a new read.
func FromRESTNamespace(resource *RESTResource, namespace string, wanted func(name string) bool) Source {
	return &namespaceSource{resource: resource, namespace: namespace, filter: newNameFilter(resource.NewObject, wanted)}
}

type namespaceSource struct {
	resource  *RESTResource
	namespace string
	filter    *nameFilter
}

func (s *namespaceSource) Watch(ctx context.Context, options metav1.ListOptions) (Stream, error) {
	source := &restSource{resource: s.resource, namespace: s.namespace}
	return source.watch(ctx, options, s.filter)
}

// List returns the wanted objects in one list, at the version of its first page. All
// pages are of that version: the server refuses a page that is not (410).
func (s *namespaceSource) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.Limit = pageSize
	if options.ResourceVersion != "" && options.ResourceVersionMatch == "" {
		// Without it a limit asks for exactly that version.
		options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	var items []runtime.Object
	for {
		page, _, err := s.resource.list(ctx, s.namespace, "", options, noLimit) // a page may be larger: some servers ignore the limit
		if err != nil {
			return nil, err
		}
		if items, err = s.appendWanted(items, page); err != nil {
			return nil, err
		}
		header, err := meta.ListAccessor(page)
		if err != nil {
			return nil, undecodable(err)
		}
		if header.GetContinue() == "" {
			return s.listOf(items, header.GetResourceVersion())
		}
		options.Continue, options.ResourceVersion, options.ResourceVersionMatch = header.GetContinue(), "", ""
	}
}

// appendWanted appends copies of the wanted objects of a page, which do not share its
// memory.
func (s *namespaceSource) appendWanted(items []runtime.Object, page runtime.Object) ([]runtime.Object, error) {
	err := meta.EachListItem(page, func(object runtime.Object) error {
		header, err := meta.Accessor(object)
		if err == nil && !s.filter.dropsName(header.GetName()) {
			items = append(items, object.DeepCopyObject())
		}
		return err
	})
	if err != nil {
		return nil, undecodable(err)
	}
	return items, nil
}

func (s *namespaceSource) listOf(items []runtime.Object, version string) (runtime.Object, error) {
	list := s.resource.NewList()
	header, err := meta.ListAccessor(list)
	if err == nil {
		header.SetResourceVersion(version)
		err = meta.SetList(list, items)
	}
	if err != nil {
		return nil, undecodable(err)
	}
	return list, nil
}
