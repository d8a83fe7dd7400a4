// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var selfSubjectAccessReviews = &resource{
	groupVersion: authorizationv1.SchemeGroupVersion,
	name:         "selfsubjectaccessreviews", singular: "selfsubjectaccessreview", kind: "SelfSubjectAccessReview",
	prototype: &authorizationv1.SelfSubjectAccessReview{},
	answer:    (*call).reviewAccess,
}

// reviewAccess responds with the decision that a request with the attributes of the review would get.
func (c *call) reviewAccess() error {
	obj, err := c.decodeBody(c.request.Query.Get("fieldValidation"))
	if err != nil {
		return err
	}
	review := obj.(*authorizationv1.SelfSubjectAccessReview)
	if errs := validateReview(review); len(errs) > 0 {
		// As in kube-apiserver, the error has no kind.
		return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: c.authorizer.allows(reviewedRequest(review))}
	return c.respond(http.StatusCreated, review)
}

// reviewedRequest returns the request that a valid review asks about.
func reviewedRequest(review *authorizationv1.SelfSubjectAccessReview) Request {
	if path := review.Spec.NonResourceAttributes; path != nil {
		return Request{Verb: path.Verb, Path: path.Path}
	}
	attributes := review.Spec.ResourceAttributes
	return Request{
		Verb: attributes.Verb, Group: attributes.Group, Version: cmp.Or(attributes.Version, "*"),
		Resource: attributes.Resource, Subresource: attributes.Subresource,
		Namespace: attributes.Namespace, Name: attributes.Name,
	}
}

func validateReview(review *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	spec, path := review.Spec, field.NewPath("spec")
	var errs field.ErrorList
	switch {
	case spec.ResourceAttributes != nil && spec.NonResourceAttributes != nil:
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), spec.NonResourceAttributes, "cannot be specified in combination with resourceAttributes"))
	case spec.ResourceAttributes == nil && spec.NonResourceAttributes == nil:
		errs = append(errs, field.Invalid(path.Child("resourceAttributes"), spec.ResourceAttributes, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	meta := *review.ObjectMeta.DeepCopy()
	meta.ManagedFields = nil
	if !equality.Semantic.DeepEqual(meta, metav1.ObjectMeta{}) {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), "", "must be empty"))
	}
	return errs
}
