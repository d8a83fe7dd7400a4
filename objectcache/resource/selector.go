// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache/internal/names"
)

// Selector selects objects by more than their names. The server gets its text: labels.Nothing and
// fields.Nothing have none, and select all, as with client-go's clients.
type Selector struct {
	Label labels.Selector // nil selects all
	Field fields.Selector // nil selects all
}

// strings returns the selectors in the syntax of metav1.ListOptions.
func (s Selector) strings() (labels, fields string) {
	if s.Label != nil {
		labels = s.Label.String()
	}
	if s.Field != nil {
		fields = s.Field.String()
	}
	return labels, fields
}

// WithSelector returns the resource with a selector for each namespace, which is empty for a
// cluster-scoped kind. Each list and watch of an object has it beside the name. So RBAC's
// resourceNames still allow them. An object that the selector does not select is absent for a
// store, as it is for an informer with that selector: Get returns NotFound, and Changes yields
// an absence when the object matches no longer.
//
// selector must return the same for the same namespace, and several goroutines call it. A
// field selector is one that the server supports for the kind; it refuses another one (400).
// Terms on metadata.name and metadata.namespace are decided without a request: a name that they
// exclude is absent, and a request for another name is authorized as that name.
//
// Only a WatchStore can select: the constructors of others, which read with GETs, return an
// error, and so do all for a resource of [FromSource].
func (r Resource[T]) WithSelector(selector func(namespace string) Selector) Resource[T] {
	if r.rest == nil {
		if r.source != nil {
			r.clientError, r.source = errNoSelector, nil
		}
		return r
	}
	all := r.rest
	r.useREST(all.Client, all.NewObject, all.NewList)
	r.rest.Selector = func(namespace string) (labels, fields string) { return selector(namespace).strings() }
	return r
}

// checkSelected returns a NotFound if the field selector excludes the name or the namespace.
func (r *Resource[T]) checkSelected(key types.NamespacedName) error {
	if r.rest == nil || r.rest.Selects(key.Namespace, key.Name) {
		return nil
	}
	err := apierrors.NewNotFound(r.resource, key.Name)
	err.ErrStatus.Message = fmt.Sprintf("%s %q not found: the field selector excludes it", r.resource.String(), names.Text(key))
	return err
}

var (
	errNoSelector    = errors.New("objects of FromSource have no selector: select them in the source, or use FromConfig or Typed")
	errSelectorOfGet = errors.New("its objects have a selector, and a GET selects by the name alone: use a WatchStore")
)
