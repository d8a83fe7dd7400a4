// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotServedError is the cause when a list or a watch was answered with 404: the
// path is not served. A proxy without a backend answers so, and a server that
// does not serve the resource, or not yet. That says nothing of an object, so
// apierrors.IsNotFound does not hold for it: an absent object is a complete read
// without it.
type NotServedError struct {
	// Code and Reason are those of the answer.
	Code   int32
	Reason metav1.StatusReason

	err error
}

// Error returns the text of the answer.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("the path is not served (%d): %v", e.Code, e.err)
}

// Is reports whether the answer is target. There is no Unwrap: apierrors would
// find a NotFound by it.
func (e *NotServedError) Is(target error) bool { return errors.Is(e.err, target) }

// notServed returns err, as a [NotServedError] if it passes for an absent object.
func notServed(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	return &NotServedError{Code: status.Status().Code, Reason: status.Status().Reason, err: err}
}
