// SPDX-License-Identifier: Apache-2.0

package failure_test

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

func TestOutcome(t *testing.T) {
	tests := map[string]struct {
		err        error
		kind       admission.Kind
		retryAfter time.Duration
	}{
		"synced":        {nil, admission.Synced, 0},
		"expired":       {apierrors.NewResourceExpired("x"), admission.Answered, 0},
		"too large":     {tooLarge, admission.Answered, 0},
		"silent":        {failure.ErrSilent, admission.Answered, 0},
		"throttled":     {apierrors.NewTooManyRequests("x", 7), admission.Throttled, 7 * time.Second},
		"unauthorized":  {apierrors.NewUnauthorized("x"), admission.Unauthorized, 0},
		"forbidden":     {forbidden, admission.Refused, 0},
		"bad request":   {apierrors.NewBadRequest("x"), admission.Refused, 0},
		"malformed":     {cache.ErrMalformed, admission.Failed, 0},
		"internal":      {apierrors.NewInternalError(errors.New("x")), admission.Failed, 0},
		"no answer":     {failure.ErrNoAnswer, admission.Unreachable, 0},
		"no connection": {errors.New("connection refused"), admission.Unreachable, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := failure.From(test.err).Outcome()
			if want := (admission.Outcome{Kind: test.kind, RetryAfter: test.retryAfter, Cause: test.err}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
