// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache/internal/names"
	"github.com/refwatch/refwatch/objectcache/resource"
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
	// ErrNoAnswer is among the causes of ErrNotSynced when the server did not answer.
	ErrNoAnswer = reflector.ErrNoAnswer
	// ErrInvalidName is returned by Get for a namespace or name that no object
	// can have. No request is ever sent for it. The object is absent, as one that the
	// server has not: apierrors.IsNotFound holds for the error, and the object has synced. It does
	// not hold for a key without a name, or of the wrong scope: that is a mistake of the program, and
	// says nothing about the object.
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
// the error and the cause of ctx if it has ended, and the given causes except nil. If there is a cause, the text does
// not have the error of ctx, and with a failure neither its cause nor the rate limit of the client: whether ctx ends
// before the server has refused often enough is a matter of the moment.
func notSynced(ctx context.Context, causes ...error) []error {
	all := []error{ErrNotSynced}
	failed := slices.ContainsFunc(causes, isFailure)
	add := func(err error, aside bool) {
		switch {
		case err == nil:
		case aside:
			all = append(all, names.Aside{Err: err})
		default:
			all = append(all, err)
		}
	}
	err, cause := endOf(ctx)
	add(err, true)
	add(cause, failed)
	for _, cause := range causes {
		add(cause, failed && !isFailure(cause) && errors.Is(cause, resource.ErrClientLimited))
	}
	return all
}

// isFailure reports whether a cause is one for which a Get need not wait any longer.
func isFailure(cause error) bool {
	waitsFor := func(err error) bool { return errors.Is(cause, err) }
	return cause != nil && !slices.ContainsFunc([]error{
		ErrNotStarted, ErrStale, errNotStored, errOtherReads,
		reflector.ErrNoAnswer, reflector.ErrWaiting, resource.ErrClientLimited,
	}, waitsFor)
}

// hasStopped returns the causes of a Get of a store that has been stopped, which are also those of notSynced if ctx has
// ended: a program may have one context for both. run is that of Run.
func hasStopped(run, ctx context.Context, causes ...error) []error {
	all := append([]error{ErrStopped}, causes...)
	for _, ended := range []context.Context{run, ctx} {
		err, cause := endOf(ended)
		if err == nil {
			continue
		}
		if cause != nil {
			err = fmt.Errorf("%w; %w", err, cause)
		}
		all = append(all, names.Aside{Err: err})
		if ended == ctx {
			all = append(all, names.Aside{Err: ErrNotSynced})
		}
	}
	return all
}

// endOf returns why a context has ended: its error, and its cause if that is another. It returns nil while the context
// lasts.
func endOf(ctx context.Context) (err, cause error) {
	err, cause = ctx.Err(), context.Cause(ctx)
	switch {
	case err == nil, errors.Is(cause, err):
		return err, nil
	case apierrors.IsNotFound(cause): // of another object
		return err, names.NotAbsentError{Hidden: cause}
	}
	return err, cause
}

// causesOf returns why the state is not known, or not newer. The texts are the same as long as the cause is: Status has
// what changes. With a failure, that alone is the cause, whatever the next attempt waits for.
func causesOf(status reflector.Status) (causes []error) {
	if status.Failures > 0 {
		causes = append(causes, status.LastError)
	}
	answered := !status.AnsweredAt.IsZero()
	switch {
	case answered && (status.Failures == 0 || time.Since(status.AnsweredAt) >= time.Second):
		causes = append(causes, errNotStored)
	case status.Failures > 0:
	case status.OutageCause != nil:
		causes = append(causes, status.OutageCause)
	case !answered && !status.AskedAt.IsZero():
		causes = append(causes, reflector.ErrNoAnswer)
	case status.Waiting != nil:
		causes = append(causes, status.Waiting)
	case !status.Synced && !status.Streaming: // the request begins at this moment
		causes = append(causes, reflector.ErrNoAnswer)
	}
	return causes
}

var errNotStored = errors.New("the answer is not stored yet")

// StaleError is joined to [ErrNotSynced] when the server is behind the version that a Get demands.
// errors.Is finds [ErrStale].
type StaleError struct {
	// Version is that of the server, and Demanded that of GetOptions.NotOlderThan.
	Version, Demanded string
}

// Error does not have the versions, which differ from read to read.
func (e *StaleError) Error() string { return errBehind.Error() }

var errBehind = fmt.Errorf("%w: the server is behind the version that was demanded", ErrStale)

// Unwrap returns [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }

// explainFailure returns the error of a failed attempt as the log has it. The first one for a right
// that is missing says what each strategy needs: the program may have the rights of another one.
func (s *WatchStore[T]) explainFailure(err error) error {
	err = s.resource.Explain(notServed(err))
	if apierrors.IsForbidden(err) {
		s.loggedForbidden.Do(func() { err = fmt.Errorf("%w: %w", err, errRights) })
	}
	return err
}

var errRights = errors.New("call access.Roles for the Role: WatchOptions needs list and watch, TTLOptions and DirectOptions need get")
