// SPDX-License-Identifier: Apache-2.0

package failure_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", errors.New("x"))
	tooLarge  = &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 504, Reason: metav1.StatusReasonTimeout,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
	}}
)

func TestOf(t *testing.T) {
	oldTooLarge := apierrors.NewTimeoutError("Too large resource version: 9, current: 5", 1)
	oldCause := apierrors.NewTimeoutError("the server has timed out", 1)
	oldCause.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "Too large resource version"}}
	decoding := apierrors.NewClientErrorReporter(500, "GET", "ClientWatchDecoding").AsObject(errors.New("x"))
	tests := map[string]struct {
		err  error
		want failure.Class
	}{
		"nil":                {nil, failure.None},
		"gone":               {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone}}, failure.Expired},
		"expired":            {apierrors.NewResourceExpired("x"), failure.Expired},
		"too large":          {tooLarge, failure.TooLarge},
		"too large, old way": {oldTooLarge, failure.TooLarge},
		"too large, a cause": {oldCause, failure.TooLarge},
		"other timeout":      {apierrors.NewTimeoutError("x", 1), failure.Failed},
		"throttled":          {apierrors.NewTooManyRequests("x", 1), failure.Throttled},
		"forbidden":          {forbidden, failure.Forbidden},
		"wrapped":            {fmt.Errorf("x: %w", forbidden), failure.Forbidden},
		"unauthorized":       {apierrors.NewUnauthorized("x"), failure.Unauthorized},
		"no such resource":   {apierrors.NewNotFound(schema.GroupResource{}, ""), failure.Refused},
		"invalid":            {apierrors.NewBadRequest("x"), failure.Refused},
		"internal":           {apierrors.NewInternalError(errors.New("x")), failure.Failed},
		"unavailable":        {apierrors.NewServiceUnavailable("x"), failure.Failed},
		"conflict":           {apierrors.NewConflict(schema.GroupResource{}, "x", nil), failure.Failed},
		"ended early":        {fmt.Errorf("%w: x", failure.ErrEndedEarly), failure.Failed},
		"no bookmark":        {failure.ErrNoBookmark, failure.Failed},
		"unread":             {failure.ErrUnread, failure.Failed},
		"unverified":         {failure.ErrUnverified, failure.Unverified},
		"without a code":     {&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure}}, failure.Failed},
		"no answer":          {failure.ErrNoAnswer, failure.Unreachable},
		"silent":             {failure.ErrSilent, failure.Silent},
		"the store":          {fmt.Errorf("%w with a x", failure.ErrStore), failure.Store},
		"a panic":            {fmt.Errorf("%w: x", redact.ErrPanic), failure.Malformed},
		"transport":          {errors.New("connection refused"), failure.Unreachable},
		"malformed":          {fmt.Errorf("x: %w", cache.ErrMalformed), failure.Malformed},
		"not decodable":      {apierrors.FromObject(decoding), failure.Failed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := failure.Of(test.err); got != test.want {
				t.Errorf("Of(%v): got %q, want %q", test.err, got, test.want)
			}
			if got := failure.Of(redact.Error(test.err)); test.err != nil && got != test.want {
				t.Errorf("Of(%v), redacted: got %q, want %q", test.err, got, test.want)
			}
		})
	}
}

// After these classes the version known so far is of no use. The others resume from it.
func TestNeedsConsistentRead(t *testing.T) {
	needs := []failure.Class{failure.Expired, failure.TooLarge, failure.Malformed, failure.Silent}
	refusals := []failure.Class{failure.Unauthorized, failure.Forbidden, failure.Refused}
	for _, class := range []failure.Class{
		failure.None, failure.Expired, failure.TooLarge, failure.Throttled, failure.Unauthorized, failure.Forbidden,
		failure.Refused, failure.Failed, failure.Unreachable, failure.Malformed, failure.Silent,
	} {
		if got, want := class.NeedsConsistentRead(), slices.Contains(needs, class); got != want {
			t.Errorf("%q needs a consistent read: got %v, want %v", class, got, want)
		}
		if got, want := class.IsRefusal(), slices.Contains(refusals, class); got != want {
			t.Errorf("%q is a refusal: got %v, want %v", class, got, want)
		}
	}
}
