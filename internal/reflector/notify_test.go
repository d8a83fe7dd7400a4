// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/storetest"
)

// panickingName is a store whose name panics.
type panickingName struct {
	*storetest.Slot[*corev1.Secret]
}

func (panickingName) ReflectorName() string { panic(canary) }

// panickingObserver is a store that panics when it is notified.
type panickingObserver struct {
	*storetest.Slot[*corev1.Secret]
}

func (panickingObserver) ReflectorChanged() { panic(canary) }

// A panic in a method that only names or notifies ends nothing, and its value is not shown.
func TestPanicsOfNotifications(t *testing.T) {
	for name, store := range map[string]reflector.Store{
		"name": panickingName{newSecretSlot()}, "observer": panickingObserver{newSecretSlot()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
				source := watching(fails(forbidden()), opens(state(secret("7"), "7")...))
				r := reflector.New(source, store, reflector.Options{})
				ended := make(chan struct{})
				r.Start(klog.NewContext(t.Context(), logger), func() { close(ended) })
				after(time.Minute)
				if !r.Status().Synced {
					t.Errorf("got %+v, want a state after the failure", r.Status())
				}
				checkSecrecy(t, "log", logger.GetSink().(ktesting.Underlier).GetBuffer().String())
				r.Stop()
				<-ended
			})
		})
	}
}

// The time of one failure is the same in each Status, also as a text.
func TestTimeOfAFailureIsTheSame(t *testing.T) {
	r := startParked(t, watching(fails(forbidden())), newSecretSlot(), reflector.NewGate(reflector.GateOptions{}))
	for r.Status().LastErrorTime.IsZero() {
		time.Sleep(time.Millisecond)
	}
	r.Pause()
	texts := map[string]bool{}
	for range 1000 {
		texts[r.Status().LastErrorTime.Format(time.RFC3339Nano)] = true
	}
	if len(texts) > 1 {
		t.Errorf("got %d texts of the time of one failure, want one", len(texts))
	}
}
