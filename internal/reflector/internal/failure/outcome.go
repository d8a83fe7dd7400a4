// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// outcomes maps each class of failure onto what it means for admission.
var outcomes = map[Class]admission.Kind{
	None:         admission.Synced,
	Expired:      admission.Answered,
	TooLarge:     admission.Answered,
	Silent:       admission.Answered,
	Throttled:    admission.Throttled,
	Unauthorized: admission.Unauthorized,
	Forbidden:    admission.Refused,
	Refused:      admission.Refused,
	Malformed:    admission.Failed,
	Store:        admission.Refused, // by this store, for this member alone
	Failed:       admission.Failed,
	Unreachable:  admission.Unreachable,
}

// Outcome returns what an error means for admission.
func Outcome(err error) admission.Outcome {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return admission.Outcome{Kind: outcomes[Of(err)], RetryAfter: time.Duration(seconds) * time.Second, Cause: redact.Bound(err)}
}
