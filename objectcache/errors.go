// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/reflector"
)

var (
	// ErrNotRegistered is returned by Get, at once, for an object that nobody
	// references, and by a Get that waits when the last reference goes.
	ErrNotRegistered = errors.New("not registered: no owner references it: call RegisterPod or SetReferences first")
	// ErrNotSynced is returned by Get when its context ended, or the server kept
	// refusing, before the object's state was known. The cause is joined to it.
	ErrNotSynced = errors.New("not synced")
	// ErrNotStarted is joined to ErrNotSynced when Run has not been called, so
	// that nothing has been requested.
	ErrNotStarted = errors.New("the store is not running: Run has not been called")
	// ErrStale is joined to ErrNotSynced when a state is known, but is older
	// than WatchOptions.MaxStaleness.
	ErrStale = errors.New("last known state is older than the allowed staleness")
	// ErrInvalidName is returned by Get for a namespace or name that no object
	// can have. No request is ever made for one.
	ErrInvalidName = errors.New("invalid name")
	// ErrStopped is returned by Get once the store has been stopped.
	ErrStopped = errors.New("the store has been stopped")
	// ErrAlreadyStarted is returned by a second Run: a store runs once.
	ErrAlreadyStarted = errors.New("the store has been run already: make a new one")
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
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, err):
		case apierrors.IsNotFound(cause): // of another object
			all = append(all, notAbsentError{cause})
		default:
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

// causesOf returns why the state is not known, or not known better.
func causesOf(stream reflector.Status) (causes []error) {
	if stream.Failures > 0 {
		causes = append(causes, stream.LastError)
	}
	if stream.Waiting != nil {
		causes = append(causes, stream.Waiting)
	}
	if stream.AskedAt.IsZero() {
		return causes
	}
	if silent := time.Since(stream.AskedAt); len(causes) == 0 || silent >= time.Second {
		causes = append(causes, fmt.Errorf("the server has not answered for %v", silent.Round(time.Millisecond)))
	}
	return causes
}
