// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrMalformed is the cause when a server sends something that cannot belong to
// the selection: an object that the store's Guard refuses, an unknown event
// type, a list without a version.
var ErrMalformed = errors.New("malformed answer")

// Class says what kind of failure an error is, and so what is done about it.
type Class string

const (
	// None is the class of a nil error.
	None Class = ""
	// Expired: the version asked for is no longer known (410). The next read is
	// a consistent one.
	Expired Class = "Expired"
	// TooLarge: the version asked for is not known yet (504 with the cause
	// ResourceVersionTooLarge): a lagging or a rolled-back server.
	TooLarge Class = "TooLarge"
	// Throttled: the server asks for patience (429); Retry-After is honoured.
	Throttled Class = "Throttled"
	// Forbidden: the caller may not do this (403). The Node authorizer answers
	// so until it has seen a fresh binding.
	Forbidden Class = "Forbidden"
	// Refused: the server will not do this for what it is: not authenticated
	// (401), no such resource (404), not a valid request (other 4xx).
	Refused Class = "Refused"
	// Connection: no usable answer: refused, reset, timed out, not decodable
	// (which is how client-go reports a connection that it lost), or 5xx.
	Connection Class = "Connection"
	// Malformed: see [ErrMalformed]. Also a panic of a source or store.
	Malformed Class = "Malformed"
	// Silent: a list told of something that the stream should have brought. The
	// next read is a consistent one.
	Silent Class = "Silent"
)

// refusal tells whether the server answered and said no.
func (c Class) refusal() bool { return c == Forbidden || c == Refused }

// Classify returns the class of an error of a list or a watch.
func Classify(err error) Class {
	switch {
	case err == nil:
		return None
	case errors.Is(err, ErrMalformed), errors.Is(err, errPanic):
		return Malformed
	case errors.Is(err, errSilent):
		return Silent
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return Expired
	case isTooLarge(err):
		return TooLarge
	case apierrors.IsTooManyRequests(err):
		return Throttled
	case apierrors.IsForbidden(err):
		return Forbidden
	}
	switch code := statusCode(err); {
	case code == http.StatusRequestTimeout, code == http.StatusConflict:
		return Connection
	case code >= http.StatusBadRequest && code < http.StatusInternalServerError:
		return Refused
	}
	return Connection
}

func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// isTooLarge knows the cause that servers since 1.18 give, and the message of
// older ones, which is that of the error or of one of its causes.
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
