// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector"
)

// Reads that fail follow each other after pauses. One that succeeds ends them.
func TestReaderBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reflector.NewReader(reflector.Options{Name: "tls"})
		defer r.Stop()
		failure := forbidden()
		read := func(context.Context) error { return failure }
		began := time.Now()
		for i := range 20 {
			if err := r.Read(t.Context(), read); !errors.Is(err, failure) {
				t.Fatalf("got %v, want the failure", err)
			}
			if status := r.Status(); status.Failures != i+1 || !errors.Is(status.LastError, failure) || status.RefusedSince.After(began) || !status.AskedAt.IsZero() {
				t.Errorf("status: got %+v, want %d failures, and refusals since the first", status, i+1)
			}
		}
		if took := time.Since(began); took < 100*time.Second || took > 300*time.Second {
			t.Errorf("20 failures took %v, want 100 to 300 s", took)
		}
		failure = nil
		if err := r.Read(t.Context(), read); err != nil {
			t.Errorf("got %v, want none", err)
		}
		began = time.Now()
		for range 3 {
			if err := r.Read(t.Context(), read); err != nil || time.Since(began) > 0 {
				t.Errorf("got %v after %v, want none at once", err, time.Since(began))
			}
		}
		if status := r.Status(); status.Failures != 0 || !status.Synced || !status.LastContact.Equal(began) || !status.RefusedSince.IsZero() {
			t.Errorf("status: got %+v, want a read now", status)
		}
	})
}

// A read that panics, hangs, or fails with a text that may quote an object is a failure.
func TestReaderFailures(t *testing.T) {
	tests := map[string]struct {
		read func(context.Context) error
		want string
		took time.Duration
	}{
		"panic":    {func(context.Context) error { panic(canary) }, "panic: a string in", 0},
		"hangs":    {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "the server did not answer in time", reflector.ReadTimeout},
		"quotes":   {func(context.Context) error { return errors.New(canary) }, "hidden because it may quote", 0},
		"readable": {func(context.Context) error { return io.EOF }, "EOF", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := reflector.NewReader(reflector.Options{})
				defer r.Stop()
				began := time.Now()
				err := r.Read(t.Context(), test.read)
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), canary) || time.Since(began) != test.took {
					t.Errorf("got %v after %v, want %q after %v", err, time.Since(began), test.want, test.took)
				}
				if got := r.Status().LastError; got == nil || got.Error() != err.Error() {
					t.Errorf("status: got %v, want %v", got, err)
				}
			})
		})
	}
}

// A read that is given up is no failure.
func TestReaderGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{Opens: 1})
		first, second := reflector.NewReader(reflector.Options{Gate: gate}), reflector.NewReader(reflector.Options{Gate: gate})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() {
			done <- first.Read(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}()
		synctest.Wait()
		if status := first.Status(); status.AskedAt.IsZero() {
			t.Errorf("status during a read: got %+v, want when it began", status)
		}
		go func() { done <- second.Read(t.Context(), func(context.Context) error { return nil }) }()
		synctest.Wait()
		if status := second.Status(); !errors.Is(status.Waiting, reflector.ErrWaiting) {
			t.Errorf("status in the queue: got %+v, want Waiting", status)
		}
		second.Stop()
		if err := <-done; err == nil {
			t.Error("stopped in the queue: got no error")
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || first.Status().Failures != 0 {
			t.Errorf("given up: got %v and %+v, want Canceled and no failure", err, first.Status())
		}
		first.Stop()
		if got := statusNow(gate); got != (reflector.GateStatus{}) {
			t.Errorf("gate: got %+v, want an idle one", got)
		}
	})
}

// A reader makes single reads. Whatever a Gate has learned from reflectors holds for it.
func ExampleReader() {
	gate := reflector.NewGate(reflector.GateOptions{}) // of the reflectors
	r := reflector.NewReader(reflector.Options{Name: "settings", Resource: "configmaps", Gate: gate})
	defer r.Stop()
	err := r.Read(context.Background(), func(context.Context) error {
		fmt.Println("send a GET")
		return nil
	})
	fmt.Println(r.Status().Synced, err)
	// Output:
	// send a GET
	// true <nil>
}
