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
		return &kubeletText{apierrors.NewNotFound(resource, name).Error(), err}
	case errors.Is(err, objectcache.ErrNotRegistered):
		return &kubeletText{fmt.Sprintf("object %q/%q not registered", namespace, name), err}
	case errors.Is(err, objectcache.ErrNotSynced):
		return fmt.Errorf("failed to sync %s cache: timed out waiting for the condition: %w", resource, err)
	}
	return fmt.Errorf("failed to sync %s cache: %w", resource, err)
}

// kubeletText is an error with kubelet's text only: that of the cause repeats it, or names functions that kubelet calls
// itself.
type kubeletText struct {
	text  string
	cause error
}

func (e *kubeletText) Error() string { return e.text }

func (e *kubeletText) Unwrap() error { return e.cause }
