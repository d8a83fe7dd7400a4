// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// A reflector that waits in an outage is away, also if the newest failure is its own. LastError is the newest failure.
func TestAwayWithAFailureOfItsOwn(t *testing.T) {
	own, others, noticed := errors.New("own"), errors.New("others"), time.Now()
	for name, test := range map[string]struct {
		failed time.Time // when its own attempt failed
		want   error
	}{
		"never failed": {time.Time{}, others}, "failed before": {noticed.Add(-time.Second), others}, "failed last": {noticed, own},
	} {
		status := Status{LastError: own, LastErrorTime: test.failed, FailedAt: test.failed}
		status.wait(admission.Waiting{Kind: admission.Unreachable, Cause: others, Since: noticed, At: noticed})
		if !status.Away || !errors.Is(status.LastError, test.want) {
			t.Errorf("%s: got %+v, want it away with the error %v", name, status, test.want)
		}
	}
	status := Status{LastError: own, LastErrorTime: noticed}
	status.wait(admission.Waiting{Kind: admission.Canceled})
	if status.Away {
		t.Errorf("without an outage: got %+v, want it not away", status)
	}
}
