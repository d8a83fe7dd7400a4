// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotServedError is the cause when the server answered a list or a watch with 404:
// it does not serve the path. A proxy without a backend answers so, and a server
// that does not serve the resource, or not yet. Such an answer says nothing about
// an object, so apierrors.IsNotFound does not hold for it.
type NotServedError struct {
	// Code and Reason are those of the answer.
	Code   int32
	Reason metav1.StatusReason

	answer notAbsentError
}

// Error returns the text of the answer.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("the path is not served (%d): %v", e.Code, e.answer)
}

// Unwrap returns the answer. errors.Is finds it, and errors.As does not.
func (e *NotServedError) Unwrap() error { return e.answer }

// notServed returns err, as a [NotServedError] if it is a 404 of the server's.
func notServed(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	return &NotServedError{Code: status.Status().Code, Reason: status.Status().Reason, answer: notAbsentError{err}}
}

// notAbsentError hides a NotFound that does not say that the object of a Get is
// absent. It has no Unwrap, by which apierrors.IsNotFound would find the NotFound.
type notAbsentError struct{ error }

// Is reports whether the hidden error is target.
func (e notAbsentError) Is(target error) bool { return errors.Is(e.error, target) }
