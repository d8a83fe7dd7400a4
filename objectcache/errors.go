// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrNotRegistered is returned by Get, at once, for an object that nobody
	// references, and by a Get that waits when the last reference goes.
	ErrNotRegistered = errors.New("not registered: no owner references it")
	// ErrNotSynced is returned by Get when its context ended, or the server kept
	// refusing, before the object's state was known. The cause is joined to it.
	ErrNotSynced = errors.New("not synced")
	// ErrStale is joined to ErrNotSynced when a state is known, but is older
	// than WatchOptions.MaxStaleness.
	ErrStale = errors.New("last known state is older than the allowed staleness")
	// ErrInvalidName is returned by Get for a namespace or name that no object
	// can have. No request is ever made for one.
	ErrInvalidName = errors.New("invalid name")
	// ErrStopped is returned by Get once the store has been stopped.
	ErrStopped = errors.New("the store has been stopped")
	// ErrRunning is returned by a second Run: a store runs once.
	ErrRunning = errors.New("the store has been run already")
	// ErrNilContext is returned by Run and Get for a context that is nil.
	ErrNilContext = errors.New("the context is nil: pass context.Background() if there is none")
)

// keyError says what is wrong with which object. It may have several causes,
// all of which errors.Is and errors.As find.
type keyError struct {
	resource string
	key      types.NamespacedName
	causes   []error
}

func (e *keyError) Error() string {
	texts := make([]string, 0, len(e.causes))
	for _, cause := range e.causes {
		texts = append(texts, cause.Error())
	}
	return fmt.Sprintf("%s %q: %s", e.resource, e.key, strings.Join(texts, ": "))
}

func (e *keyError) Unwrap() []error { return e.causes }

// notSynced joins what a caller may ask for: that there was no sync, what ended
// the wait (nil if the server's refusal did), and why there was no sync.
func notSynced(ctx context.Context, resource string, key types.NamespacedName, causes ...error) error {
	all := []error{ErrNotSynced}
	if err := ctx.Err(); err != nil {
		all = append(all, err)
		if cause := context.Cause(ctx); !errors.Is(cause, err) {
			all = append(all, cause)
		}
	}
	for _, cause := range causes {
		if cause != nil {
			all = append(all, cause)
		}
	}
	return &keyError{resource, key, all}
}
