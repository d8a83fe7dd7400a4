// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache/internal/names"
	"github.com/refwatch/refwatch/reflector"
)

// The errors of Get.

var (
	// ErrNotRegistered is returned by Get, at once, for an object that no owner
	// references. A Get that waits returns it when the last reference is deleted.
	ErrNotRegistered = errors.New("not registered: no owner references the object: add a reference, or set AcquireOnGet")
	// ErrNotSynced is returned by Get when its context ended, or the server kept
	// refusing, before the state of the object was known, and by TryGet when memory does
	// not hold it. The causes are joined to it.
	ErrNotSynced = errors.New("not synced")
	// ErrNotStarted is joined to ErrNotSynced when Run has not been called, so that
	// no request was sent.
	ErrNotStarted = errors.New("the store is not running: Run has not been called")
	// ErrStale is joined to ErrNotSynced when the last known state is older than
	// WatchOptions.MaxStaleness, TTLOptions.MaxStaleness or the GetOptions allow.
	ErrStale = errors.New("last known state is older than the allowed staleness")
	// ErrInvalidName is returned by Get for a namespace or name that no object
	// can have. No request is ever sent for it. The object is absent, as one that the
	// server has not: apierrors.IsNotFound holds for the error, and the object has synced.
	ErrInvalidName = names.ErrInvalidName
	// ErrStopped is returned by Get when the context of Run has ended. The error and the cause of
	// that context are joined to it, and why the object was not known then.
	ErrStopped = errors.New("the store has been stopped: the context of its Run has ended")
	// ErrAlreadyStarted is returned by a second Run: a store runs once.
	ErrAlreadyStarted = errors.New("the store has been run already: make a new one")
	// ErrNilContext is returned by Run and Get for a context that is nil.
	ErrNilContext = errors.New("the context is nil: pass context.Background() if there is none")
)

// keyText returns a key as errors name it. An object of a cluster-scoped kind has no
// namespace.
func keyText(key types.NamespacedName) string { return names.Text(key) }

// notSynced returns the causes of a Get that ends without a state: ErrNotSynced,
// the error and the cause of ctx if it has ended, and the given causes except nil.
func notSynced(ctx context.Context, causes ...error) []error {
	all := []error{ErrNotSynced}
	if err := endOf(ctx); err != nil {
		all = append(all, err)
	}
	for _, cause := range causes {
		if cause != nil {
			all = append(all, cause)
		}
	}
	return all
}

// hasStopped returns the causes of a Get of a store that has been stopped, which are also those of notSynced if ctx has
// ended: a program may have one context for both. run is that of Run.
func hasStopped(run, ctx context.Context, causes ...error) []error {
	all := append([]error{ErrStopped}, causes...)
	all = append(all, names.Aside{Err: endOf(run)})
	if err := endOf(ctx); err != nil {
		all = append(all, names.Aside{Err: ErrNotSynced}, names.Aside{Err: err})
	}
	return all
}

// endOf returns why a context has ended: its error, and its cause. It returns nil while the context lasts.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case err == nil, errors.Is(cause, err):
		return err
	case apierrors.IsNotFound(cause): // of another object
		cause = names.NotAbsentError{Hidden: cause}
	}
	return fmt.Errorf("%w; %w", err, cause)
}

// causesOf returns why the state is not known, or not newer.
func causesOf(status reflector.Status) (causes []error) {
	if status.Failures > 0 {
		causes = append(causes, status.LastError)
	}
	if status.Waiting != nil {
		causes = append(causes, status.Waiting)
	}
	transforming, answered, asked := status.TransformingSince, status.AnsweredAt, status.AskedAt
	if !transforming.IsZero() && (len(causes) == 0 || time.Since(transforming) >= time.Second) {
		causes = append(causes, fmt.Errorf("the transform has not returned for %v", since(transforming)))
	}
	switch {
	case len(causes) > 0 && time.Since(cmp.Or(answered, asked)) < time.Second:
	case !answered.IsZero() && transforming.IsZero():
		causes = append(causes, fmt.Errorf("the answer came %v ago, and is not stored yet", since(answered)))
	case answered.IsZero() && !asked.IsZero():
		causes = append(causes, fmt.Errorf("no answer for %v", since(asked)))
	}
	return causes
}

// since returns the time that has passed, as errors show it.
func since(at time.Time) time.Duration { return time.Since(at).Round(time.Millisecond) }
