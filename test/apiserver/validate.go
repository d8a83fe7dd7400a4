// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// prepareObject calls prepare, if the kind has one.
func (r *resource) prepareObject(obj, old object, subresource string) {
	if r.prepare != nil {
		r.prepare(obj, old, subresource)
	}
}

// check validates obj. It returns 422 with a cause for each error. old is nil on creation.
func (r *resource) check(obj, old object, subresource string) error {
	nameIsValid := apivalidation.NameIsDNSSubdomain
	if r == namespaces {
		nameIsValid = apivalidation.ValidateNamespaceName
	}
	path := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMetaAccessor(obj, r.namespaced, nameIsValid, path)
	if old != nil {
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, path)...)
	}
	if r.validate != nil {
		errs = append(errs, r.validate(obj, old, subresource)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(r.gvk().GroupKind(), obj.GetName(), errs)
}
