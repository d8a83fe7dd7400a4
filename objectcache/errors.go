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
		if cause := context.Cause(ctx); !errors.Is(cause, err) {
			all = append(all, notAbsent(cause))
		}
	}
	for _, cause := range causes {
		if cause != nil {
			all = append(all, notAbsent(cause))
		}
	}
	return &keyError{resource, key, all}
}

// causesOf returns why the state is not known, or not known better.
func causesOf(stream reflector.Status) (causes []error) {
	if stream.Failures > 0 {
		causes = append(causes, stream.LastError)
	}
	if stream.Waiting != nil && (len(causes) == 0 || !errors.Is(stream.Waiting, causes[0])) {
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

// otherNotFound is an error by which apierrors would take an object for absent
// that it does not speak of.
type otherNotFound struct{ error }

// Is reports whether the error is target. There is no Unwrap: apierrors would
// find the NotFound by it.
func (e otherNotFound) Is(target error) bool { return errors.Is(e.error, target) }

// notAbsent returns err so that apierrors.IsNotFound does not hold for it. Only
// a complete read shows that an object is absent: the cause of a caller's
// context may be the NotFound of another object, and a 404 may be the path's.
func notAbsent(err error) error {
	if apierrors.IsNotFound(err) {
		return otherNotFound{err}
	}
	return err
}
