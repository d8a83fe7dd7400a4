// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/reflector"
)

// failsFor answers nobody below id.
func failsFor(below int, err error) func(int) error {
	return func(id int) error {
		if id < below {
			return err
		}
		return nil
	}
}

// As long as one reflector alone has failed, others do not wait.
func TestOneFailureHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(failsFor(1, errDown))
		f.start(1, "secrets")
		if got := f.gate.Status().Cause; got != nil {
			t.Fatalf("cause: got %v, want one failure not taken for an outage", got)
		}
		f.start(20, "secrets")
		if got := f.synced(); got != 20 {
			t.Errorf("synced at once: got %d, want 20", got)
		}
	})
}

// Those that are waited for and fail again and again do not keep others from
// finding out that the server is there.
func TestUrgentFailuresHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(failsFor(2, errDown))
		f.start(2, "secrets")
		f.rigs[0].Retry()
		f.rigs[1].Retry()
		f.start(20, "secrets")
		for range 200 {
			after(10 * time.Millisecond)
			f.rigs[0].Retry()
			f.rigs[1].Retry()
		}
		if got := f.synced(); got != 20 {
			t.Errorf("synced in two seconds: got %d, want 20", got)
		}
	})
}

// What several others fail at is reported, without the URL that was asked for.
func TestCauseThatOthersAreTold(t *testing.T) {
	request := &url.Error{Op: "Get", URL: "https://example.test/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dtls", Err: errDown}
	tests := map[string]struct {
		err  error
		told bool
	}{
		"no connection": {errDown, true},
		"a request's":   {request, true},
		"503":           {apierrors.NewServiceUnavailable("starting"), false}, // the server answers: a new one is asked for
		"500":           {apierrors.NewInternalError(errors.New("etcd is away")), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{})
				f.start(5, "secrets")
				after(time.Second)
				f.answers(always(test.err))
				f.breakStreams() // several have to fail that were synced
				after(time.Second)
				f.takes(time.Hour)
				f.start(1, "secrets")
				status := f.rigs[5].Status()
				if told := status.Failures > 0; told != test.told {
					t.Errorf("status: got %+v, want it told: %v", status, test.told)
				}
				if status.LastError != nil && strings.Contains(status.LastError.Error(), "tls") {
					t.Errorf("error: got %v, want no name of another's object", status.LastError)
				}
			})
		})
	}
}

// The failure of one is not told to others as the server's.
func TestCauseOfOneIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 1})
		f.answers(always(errDown))
		f.start(1, "secrets")
		f.takes(20 * time.Second)
		f.start(2, "secrets") // one asks, one waits
		if got := f.rigs[2].Status(); got.Failures != 0 || got.LastError != nil {
			t.Errorf("status of one that waits: got %+v, want no failure", got)
		}
	})
}
