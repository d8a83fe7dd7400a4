// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// Failure is an error with its class. The zero value is no failure.
type Failure struct {
	Err   error
	Class Class
}

// From returns an error of a list or a watch as a Failure.
func From(err error) Failure { return Failure{err, Of(err)} }

// outcomes maps each class of failure onto what it means for admission.
var outcomes = map[Class]admission.Kind{
	None:         admission.Synced,
	Expired:      admission.Answered,
	TooLarge:     admission.Answered,
	Silent:       admission.Answered,
	Unverified:   admission.Answered,
	Throttled:    admission.Throttled,
	Unauthorized: admission.Unauthorized,
	Forbidden:    admission.Refused,
	Refused:      admission.Refused,
	Malformed:    admission.Failed,
	Store:        admission.Refused, // by this store, for this member alone
	Failed:       admission.Failed,
	Unreachable:  admission.Unreachable,
}

// Outcome returns what a failure means for admission.
func (f Failure) Outcome() admission.Outcome {
	seconds, _ := apierrors.SuggestsClientDelay(f.Err)
	return admission.Outcome{Kind: outcomes[f.Class], RetryAfter: time.Duration(seconds) * time.Second, Cause: redact.Bound(f.Err)}
}
