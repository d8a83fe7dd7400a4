// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// WaitForSync waits until each of the objects is known to exist or to be absent. It
// calls GetWithOptions, without demands, for all of them at the same time, so no object
// waits for another. Stats does not count these Gets.
//
// It returns nil if that is known of all objects. Otherwise it returns an error once
// every Get has returned: Get gives up on an object that the server refuses, and the end
// of ctx ends the wait for the others. The text names the
// first few objects that did not sync, each with the reason, and says how many more
// there are. errors.Is finds the errors of all: those of [WatchStore.Get], but
// apierrors.IsNotFound never holds. errors.As finds the first one that matches. For a
// nil ctx the error is [ErrNilContext].
func WaitForSync[T cache.Object](ctx context.Context, reader Reader[T], keys ...types.NamespacedName) error {
	if ctx == nil {
		return ErrNilContext
	}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, compareKeys)
	keys = slices.Compact(keys)
	errs := make([]error, len(keys))
	var waits sync.WaitGroup
	for i, key := range keys {
		waits.Go(func() {
			if _, err := reader.GetWithOptions(ctx, key.Namespace, key.Name, GetOptions{uncounted: true}); !apierrors.IsNotFound(err) {
				errs[i] = err
			}
		})
	}
	waits.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return &syncError{objects: len(keys), errs: errs}
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// namedErrors is how many of its errors the text of a syncError has.
const namedErrors = 5

// syncError has the errors of the objects that did not sync, at least one.
type syncError struct {
	objects int // all that were waited for
	errs    []error
}

func (e *syncError) Error() string {
	var texts []string
	for _, err := range e.errs[:min(namedErrors, len(e.errs))] {
		texts = append(texts, err.Error())
	}
	if more := len(e.errs) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d of %d objects did not sync: %s", len(e.errs), e.objects, strings.Join(texts, "; "))
}

func (e *syncError) Unwrap() []error { return e.errs }
