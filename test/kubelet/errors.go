// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/objectcache"
)

// kubeletError returns an error with the text that kubelet's watch-based manager would return in place of err, and
// with err as its cause.
func kubeletError(resource schema.GroupResource, namespace, name string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return apierrors.NewNotFound(resource, name)
	case errors.Is(err, objectcache.ErrInvalidName):
		// Kubelet lists the objects with that name, and the server answers with an empty list. A pod that marks the
		// reference as optional has to start.
		return fmt.Errorf("%w: %w", apierrors.NewNotFound(resource, name), err)
	case errors.Is(err, objectcache.ErrNotRegistered):
		return &notRegisteredError{text: fmt.Sprintf("object %q/%q not registered", namespace, name), cause: err}
	case errors.Is(err, objectcache.ErrNotSynced):
		return fmt.Errorf("failed to sync %s cache: timed out waiting for the condition: %w", resource, err)
	}
	return fmt.Errorf("failed to sync %s cache: %w", resource, err)
}

// notRegisteredError has kubelet's text only. The text of its cause names functions that kubelet calls itself.
type notRegisteredError struct {
	text  string
	cause error
}

func (e *notRegisteredError) Error() string { return e.text }

func (e *notRegisteredError) Unwrap() error { return e.cause }
