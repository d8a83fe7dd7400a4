// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timeoutError is the error of a call that ended with its context. apierrors.IsTimeout holds
// for it, as for that of the stock cache.
type timeoutError struct {
	*apierrors.StatusError

	cause error
}

func newTimeoutError(cause error) error {
	return &timeoutError{apierrors.NewTimeoutError(cause.Error(), 0), cause}
}

// Unwrap returns both, for errors.Is and errors.As.
func (e *timeoutError) Unwrap() []error { return []error{e.StatusError, e.cause} }

// timedOut returns err as a timeoutError with the cause of ctx, if ctx has ended. If the
// server has answered with an error, the class remains that of the answer.
func timedOut(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	for _, cause := range []error{ctx.Err(), context.Cause(ctx)} {
		if !errors.Is(err, cause) && !apierrors.IsNotFound(cause) { // of another object
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	answered := apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
	if answered && apierrors.ReasonForError(context.Cause(ctx)) == metav1.StatusReasonUnknown {
		return err
	}
	return newTimeoutError(err)
}
