// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
)

// SharedOptions makes the objects of a namespace share one stream, which lists and
// watches the whole namespace. Objects that no owner references are dropped by their
// names before they are decoded, and not kept. The zero value shares nothing.
//
// Share only where the user may list and watch every object of the kind in the
// namespace: the least permission, which access.Roles returns, does not allow it. If
// the server refuses, or the shared stream fails, each object gets a stream of its own
// again, and the shared stream is tried again after 5 to 10 minutes.
//
// A reference begins with a stream of its own, and joins the shared stream when both
// have read up to the same version, which takes one to three minutes. References that are
// added before the first request of a shared stream share it at once. Get and Changes see
// no difference. Immutable objects have no stream, as without sharing.
type SharedOptions struct {
	// Namespaces are those whose objects share a stream. Default: all, if Allowed is
	// set, else none.
	Namespaces []string
	// Allowed is asked before a stream of a namespace is opened. It may call
	// access.AllowedNamespace, and take as long as ctx lasts. If it returns false or
	// an error, each object has a stream of its own, and Allowed is asked again after 5
	// to 10 minutes. The namespace of cluster-scoped kinds is empty. Default: the
	// Namespaces are allowed.
	Allowed func(ctx context.Context, namespace string) (bool, error)
	// Threshold is how many objects of a namespace need a stream before they share one.
	// With fewer than half of that for five minutes, each has its own again. With none, the
	// shared stream ends at once. Default: 50, whose streams cost kube-apiserver about 3 MB.
	Threshold int
}

const defaultSharedThreshold = 50

// enabled reports whether any namespace is shared.
func (o *SharedOptions) enabled() bool { return len(o.Namespaces) > 0 || o.Allowed != nil }

// covers reports whether a namespace is one to share, if any is.
func (o *SharedOptions) covers(namespace string) bool {
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace)
}

// validate returns an error that names each field with an invalid value.
func (o *SharedOptions) validate() error {
	var problems []error
	for _, namespace := range o.Namespaces {
		for _, problem := range validation.ValidateNamespaceName(namespace, false) {
			problems = append(problems, fmt.Errorf("WatchOptions.Shared.Namespaces holds %q: %s", namespace, problem))
		}
	}
	if o.Threshold > 0 && !o.enabled() {
		problems = append(problems, errors.New("WatchOptions.Shared has a Threshold, and neither Namespaces nor Allowed: set one of them"))
	}
	if o.Threshold < 0 {
		problems = append(problems, fmt.Errorf("WatchOptions.Shared.Threshold is %d: 0 means the default, else set a positive number", o.Threshold))
	}
	return errors.Join(problems...)
}

var errNotShareable = errors.New("WatchOptions.Shared needs a REST client: " +
	"the objects of FromSource are decoded before they can be dropped")

// checkShareable returns an error if the objects of a resource cannot share a stream,
// and the options ask for it.
func (k *kind[T]) checkShareable(o *SharedOptions) error {
	if !o.enabled() || k.HasNamespaceSource() {
		return nil
	}
	return fmt.Errorf("resource %q: %w", k.resource, errNotShareable)
}
