// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

// outcomeOf returns what an error means for admission.
func outcomeOf(err error) admission.Outcome {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return admission.Outcome{Kind: kindOf(err), RetryAfter: time.Duration(seconds) * time.Second, Cause: err}
}

func kindOf(err error) admission.Kind {
	switch Classify(err) {
	case None:
		return admission.Synced
	case Expired, TooLarge, Silent:
		return admission.Answered
	case Throttled:
		return admission.Throttled
	case Forbidden:
		return admission.Refused
	case Refused:
		if statusCode(err) == http.StatusUnauthorized {
			return admission.Unauthorized
		}
		return admission.Refused
	case Malformed:
		return admission.Failed
	}
	if statusCode(err) != 0 || isAnswer(err) {
		return admission.Failed
	}
	return admission.Unreachable
}
