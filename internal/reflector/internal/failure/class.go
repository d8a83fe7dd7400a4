// SPDX-License-Identifier: Apache-2.0

// Package failure classifies the errors of list and watch requests. [Of] is the only
// place that does; the class decides how the next attempt is made and
// what other reflectors learn from it.
package failure

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

var (
	// ErrEndedEarly means that a stream ended before its initial events did.
	ErrEndedEarly = errors.New("the stream ended before its initial events did")
	// ErrNoBookmark means that the initial events did not end in time.
	ErrNoBookmark = errors.New("the server did not end the initial events of a WatchList in time")
	// ErrNoAnswer means that the state did not arrive in time.
	ErrNoAnswer = admission.ErrNoAnswer
	// ErrSilent means that a list showed a change that a silent stream had not
	// delivered.
	ErrSilent = errors.New("the stream was silent about a change")
	// ErrUnverified means that a stream was silent, and that no list could be read to compare it with.
	ErrUnverified = errors.New("the stream was silent, and lists fail that would verify it")
	// ErrUnread means that others have found out that neither lists nor watches of the resource work.
	ErrUnread = errors.New("neither lists nor watches of the resource work")
	// ErrStore means that the store returned an error.
	ErrStore = errors.New("the store failed")
)

// Class is a kind of failure.
type Class string

const (
	// None is the class of a nil error.
	None Class = ""
	// Expired means that the server no longer has the version asked for (410). The
	// next read is a consistent one.
	Expired Class = "Expired"
	// TooLarge means that the server does not have the version asked for yet (504
	// with the cause ResourceVersionTooLarge): it lags, or it was rolled back. The
	// next read is a consistent one.
	TooLarge Class = "TooLarge"
	// Throttled means 429.
	Throttled Class = "Throttled"
	// Unauthorized means 401.
	Unauthorized Class = "Unauthorized"
	// Forbidden means 403. The Node authorizer answers so until it has seen a fresh
	// binding.
	Forbidden Class = "Forbidden"
	// Refused means another 4xx: no such resource (404), or an invalid request.
	Refused Class = "Refused"
	// Failed means that the server answered without the state: 5xx, a status without a
	// code, an event that client-go cannot decode (500), or a WatchList that ended early. So does
	// [ErrUnread]: the server has answered others so.
	Failed Class = "Failed"
	// Unreachable means that no answer arrived: refused, reset, or timed out.
	Unreachable Class = "Unreachable"
	// Store means [ErrStore]. It says nothing about the server.
	Store Class = "Store"
	// Malformed means that an answer cannot belong to the selection
	// ([cache.ErrMalformed]), or that a source or store panicked. The next read is a
	// consistent one.
	Malformed Class = "Malformed"
	// Silent means [ErrSilent]. The next read is a consistent one.
	Silent Class = "Silent"
	// Unverified means [ErrUnverified]. The next read is a consistent one.
	Unverified Class = "Unverified"
)

// IsRefusal reports whether the server answered that it will not serve the caller.
func (c Class) IsRefusal() bool { return c == Unauthorized || c == Forbidden || c == Refused }

// EndsStreams reports whether a stream ends so although nothing is wrong with its object: its connection was lost, the
// server has ended it, or it could not be verified.
func (c Class) EndsStreams() bool {
	return c == Unreachable || c == Failed || c == Expired || c == Unverified
}

// NeedsConsistentRead reports whether the version known so far is of no more use.
// TooLarge is among these classes because only a consistent read shows whether the
// server lags or was rolled back.
func (c Class) NeedsConsistentRead() bool {
	return c == Expired || c == TooLarge || c == Malformed || c == Silent || c == Unverified
}

// Of returns the class of an error of a list or a watch.
func Of(err error) Class {
	switch {
	case err == nil:
		return None
	case errors.Is(err, ErrStore): // whatever else the program's error wraps
		return Store
	case errors.Is(err, cache.ErrMalformed), errors.Is(err, redact.ErrPanic):
		return Malformed
	case errors.Is(err, ErrSilent):
		return Silent
	case errors.Is(err, ErrUnverified):
		return Unverified
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return Expired
	case isTooLarge(err):
		return TooLarge
	}
	var status apierrors.APIStatus
	switch code := StatusCode(err); {
	case code == http.StatusTooManyRequests || apierrors.IsTooManyRequests(err):
		return Throttled
	case code == http.StatusUnauthorized:
		return Unauthorized
	case code == http.StatusForbidden || apierrors.IsForbidden(err):
		return Forbidden
	case code == http.StatusRequestTimeout, code == http.StatusConflict:
		return Failed
	case code >= http.StatusBadRequest && code < http.StatusInternalServerError:
		return Refused
	case errors.As(err, &status), errors.Is(err, ErrEndedEarly), errors.Is(err, ErrNoBookmark), errors.Is(err, ErrUnread):
		return Failed
	}
	return Unreachable
}

// StatusCode returns the HTTP status code of an answer, or 0 if there was none.
func StatusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// isTooLarge recognises the cause that servers send since 1.18, and the message of
// older ones, in the error or in one of its causes.
func isTooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsTimeout(err) || !errors.As(err, &status) {
		return false
	}
	texts := []string{status.Status().Message}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			texts = append(texts, cause.Message)
		}
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text), "too large resource version")
	})
}
