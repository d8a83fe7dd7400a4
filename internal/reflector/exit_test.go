// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/internal/reflector"
)

// An OnChange that ends its goroutine, as a test's FailNow does, leaves no reflector
// behind that cannot be stopped, whatever it is called for.
func TestOnChangeThatEndsTheGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := callsOfOnChange(t, 0)
		if all < 8 {
			t.Fatalf("got %d calls of OnChange, want one for each step of the script", all)
		}
		for last := range all {
			if got := callsOfOnChange(t, last+1); got <= last {
				t.Errorf("got %d calls, want at least %d", got, last+1)
			}
		}
	})
}

// callsOfOnChange runs a reflector and stops it. The call of OnChange with the number ends
// ends its goroutine; with 0 none does. callsOfOnChange returns how many calls there were.
func callsOfOnChange(t *testing.T, ends int32) int32 {
	t.Helper()
	var calls atomic.Int32
	source := &fakeSource{
		onList: lists(listFails(errDown), brings("5", secret("5")), brings("8", secret("8"))),
		onWatch: streams(
			fails(forbidden()), // with a list that fails
			fails(forbidden()), // with a list that succeeds
			fails(forbidden()), // the watch after it
			breaks(errDown, event(watch.Modified, secret("6"))),
			breaks(io.EOF, state(secret("7"), "7")...),
			opens(state(secret("7"), "7")...), // silent: a list shows another state
			opens(state(secret("8"), "8")...), // silent: a list shows the same state
		),
	}
	r := start(t, source, reflector.Options{OnChange: func() {
		if calls.Add(1) == ends {
			goruntime.Goexit()
		}
	}})
	after(10 * time.Minute)
	r.stop()
	return calls.Load()
}

// A reflector whose goroutine a function of the program has ended says so in the log.
func TestEndOfAGoroutineIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		store := callingSlot{newSecretSlot(), func(string) error { goruntime.Goexit(); return nil }}
		r := reflector.New(watching(opens(state(secret("7"), "7")...)), store, reflector.Options{Name: "tls"})
		r.Start(klog.NewContext(t.Context(), logger), func() {})
		after(time.Minute)
		r.Stop()
		got := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		want := `A function of the program has ended the goroutine of a reflector`
		if strings.Count(got, want) != 1 || !strings.Contains(got, `"tls"`) {
			t.Errorf("log: got %q, want %q once, with the name", got, want)
		}
	})
}
