// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// A server that takes a request and never answers is noticed, whatever was asked.
func TestNoAnswerIsAFailure(t *testing.T) {
	for name, source := range map[string]listwatch.Source{"watch": blocking{}, "list": blocking{list: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, source, reflector.Options{})
				after(59 * time.Second)
				if got := r.Status(); got.Failures != 0 {
					t.Errorf("status before a minute: got %+v, want patience", got)
				}
				after(10 * time.Second)
				if got := r.Status(); got.Failures != 1 || failure.Of(got.LastError) != failure.Unreachable || got.AskedAt.IsZero() {
					t.Errorf("status after a minute: got %+v, want a failure and another attempt", got)
				}
			})
		})
	}
}

// An open stream may be silent for longer.
func TestSilenceIsNoMissingAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{
			onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("5")), nil },
			onWatch: streams(opens(state(secret("5"), "7")...)),
		}
		r := start(t, source, reflector.Options{})
		after(30 * time.Minute)
		if got := r.Status(); asked(source) != 1 || got.LastError != nil {
			t.Errorf("status: got %+v, want the stream kept", got)
		}
	})
}

// What hangs does not take the place of others for longer than half a second,
// and no other is let through by it twice.
func TestHungOpeningsHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{Opens: 2})
		for range 2 {
			start(t, blocking{}, reflector.Options{Gate: gate})
		}
		var all []*rig
		for range 3 {
			all = append(all, start(t, &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))}, reflector.Options{Gate: gate}))
		}
		after(400 * time.Millisecond)
		if got := gate.Status(); got.Opening != 2 || got.Queued != 3 {
			t.Errorf("gate before 0.5 s: got %+v, want the others to wait", got)
		}
		after(200 * time.Millisecond)
		for i, r := range all {
			if !r.Status().Synced {
				t.Errorf("reflector %d after 0.6 s: got %+v, want it synced", i, r.Status())
			}
		}
		if got := gate.Status(); got.Opening != 2 || got.Queued != 0 {
			t.Errorf("gate after 0.6 s: got %+v, want those that hang alone", got)
		}
	})
}

// A probe that hangs is not waited for either: another one begins.
func TestHungProbeHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(always(errDown))
		f.start(30, "secrets")
		after(10 * time.Second)
		f.takes(time.Hour)
		after(10 * time.Second)
		f.forget()
		after(35 * time.Second)
		if got := len(f.requests(-1)); got < 5 || got > 13 {
			t.Errorf("probes beside those that hang: got %d in 35 s, want one each 2.5 to 5 s", got)
		}
		f.takes(0)
		f.answers(always(nil))
		after(5 * time.Second)
		if hang := f.gate.Status().Opening; f.synced() != 30-hang || hang == 30 {
			t.Errorf("synced: got %d of 30, want all but the %d that hang", f.synced(), hang)
		}
	})
}

// A connection that is closed before the answer makes client-go say io.EOF. That
// is no regular end of anything.
func TestEOFInsteadOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eof := func(metav1.ListOptions) (runtime.Object, error) { return nil, io.EOF }
		for name, source := range map[string]listwatch.Source{
			"watch": &fakeSource{onWatch: streams(fails(io.EOF))},
			"list":  listOnly{&fakeSource{onList: eof}},
			"watch after a list": listOnly{&fakeSource{
				onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("7"), nil },
				onWatch: streams(fails(io.EOF)),
			}},
		} {
			r := start(t, source, reflector.Options{})
			if got := r.Status(); got.LastError == nil || failure.Of(got.LastError) != failure.Unreachable {
				t.Errorf("%s: got %+v, want a failure of the connection", name, got)
			}
			r.stop()
		}
	})
}
