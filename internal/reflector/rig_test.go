// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"bytes"
	"context"
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

// The rig of all tests of this package. A test scripts the answers of a server, starts a
// reflector, lets virtual time pass, and then checks the state, the status and the
// requests:
//
//	func TestStreamIsOpenedAgain(t *testing.T) {
//		inBubble(t, func(t *testing.T) {
//			r := start(t, watching(
//				breaks(io.EOF, state(secret("5"), "7")...), // the first stream ends after the state
//				opens(state(secret("8"), "9")...),          // the second one stays open
//			), reflector.Options{})
//			after(time.Second)
//			if got := r.slot.Load(); got.ResourceVersion != "8" {
//				t.Errorf("state: got %+v, want version 8", got)
//			}
//			if got, want := r.source.asked(), []string{"WatchList ", "WatchList 7"}; !slices.Equal(got, want) {
//				t.Errorf("requests: got %q, want %q", got, want)
//			}
//		})
//	}
//
// inBubble runs a test in a synctest bubble, with parked streams and with blocking ones.
// parkedAndBlocking does so without a bubble: eachCase then runs each case of a table in
// one. Build what a case changes, like a source, within parkedAndBlocking. A test that
// does not depend on this calls synctest.Test or eachCase alone, and parks its streams.
//
// rig_source_test.go has the objects, errors and answers of the scripted server, and
// rig_parked_test.go makes its streams parkable.
// rig_crowd_test.go has many reflectors that share a gate and a server, and
// rig_member_test.go each of them, and the checks. clientgo_stores_rig_test.go has an API
// server with ConfigMaps, and a consumer of client-go's queues.

// blockingStreams is set by tests whose streams have a goroutine: the rig does not make them
// parkable. Tests are not parallel.
var blockingStreams bool

// blockStreams sets blockingStreams until the test ends.
func blockStreams(t *testing.T) {
	blockingStreams = true
	t.Cleanup(func() { blockingStreams = false })
}

// parkedAndBlocking runs f as the subtests "parked" and "blocking".
func parkedAndBlocking(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run("parked", f)
	t.Run("blocking", func(t *testing.T) {
		blockStreams(t)
		f(t)
	})
}

// inBubble runs f with parked and with blocking streams, in a bubble.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	parkedAndBlocking(t, func(t *testing.T) { synctest.Test(t, f) })
}

// eachCase runs f as a subtest for each case of a table, in a bubble.
func eachCase[T any](t *testing.T, tests map[string]T, f func(t *testing.T, test T)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, test) }) })
	}
}

// rig is a reflector that runs.
type rig struct {
	*reflector.Reflector

	gate   *reflector.Gate
	slot   *storetest.Slot[*corev1.Secret] // nil with another store
	source *fakeSource                     // nil if the source is another one
	stop   func()                          // ends the reflector and waits for it
	wait   func()                          // returns when the reflector has ended
}

// start runs a reflector on a slot, in a bubble. It ends with the test.
func start(t *testing.T, source listwatch.Source, options reflector.Options, before ...func(*reflector.Reflector)) *rig {
	t.Helper()
	slot := storetest.NewSlot[*corev1.Secret](key)
	r := startWith(t, source, slot, options, before...)
	r.slot = slot
	synctest.Wait()
	return r
}

// startWith is start with another store. It does not wait for the first attempt.
func startWith(t *testing.T, source listwatch.Source, store reflector.Store, options reflector.Options, before ...func(*reflector.Reflector)) *rig {
	t.Helper()
	r := &rig{Reflector: reflector.New(parkable(source), store, options), gate: options.Gate}
	if fake, ok := source.(interface{ fake() *fakeSource }); ok {
		r.source = fake.fake()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	for _, f := range before {
		f(r.Reflector)
	}
	r.Start(ctx, func() { close(done) })
	r.wait = func() { <-done }
	r.stop = func() { cancel(); r.Stop(); r.wait() }
	t.Cleanup(r.stop)
	return r
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// logged runs f with klog at a verbosity and returns the log.
func logged(t *testing.T, verbosity string, f func()) string {
	t.Helper()
	var mu sync.Mutex
	var out bytes.Buffer
	state := klog.CaptureState()
	defer state.Restore()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"v": verbosity, "logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(writer(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return out.Write(p) }))
	f()
	klog.Flush()
	mu.Lock()
	defer mu.Unlock()
	return out.String()
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// checkSecrecy reports object data in a text, in any form that fmt or a codec gives it.
func checkSecrecy(t *testing.T, what, text string) {
	t.Helper()
	for _, form := range []string{"canary", "Y2FuYXJ5", "99, 97, 110", "99 97 110"} {
		if strings.Contains(text, form) {
			t.Errorf("%s: got object data (%q) in:\n%s", what, form, text)
		}
	}
}

// collect collects garbage until freed is closed. A cleanup runs some time after a
// collection, so that a few collections may be needed.
func collect(t *testing.T, freed <-chan struct{}) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("the object is still reachable")
}
