// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// freedSource is a source whose first stream brings an object and then breaks. Later attempts fail, or hang. It reports
// when the object is freed.
type freedSource struct {
	freed  chan struct{}
	parked *connected // the first stream, nil if it breaks
	err    error      // of later attempts; nil: they hang
	calls  int
}

func (f *freedSource) List(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	if f.err != nil {
		return nil, f.err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *freedSource) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	f.calls++
	switch {
	case f.calls == 1 && f.parked != nil:
		return f.parked, nil
	case f.calls == 1:
		object := secret("5")
		goruntime.AddCleanup(object, func(freed chan struct{}) { close(freed) }, f.freed)
		stream := newStream(state(object, "7")...).finish(errDown)
		stream.ctx = ctx
		return stream, nil
	case f.err != nil:
		return nil, f.err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A gate keeps nothing of a reflector that has ended, whatever others of it do: the member of the admission is a part
// of the reflector, which has the store and its object.
func TestGateKeepsNothingOfAReflector(t *testing.T) {
	type test struct {
		err    error // nil: attempts hang
		lives  time.Duration
		before func(*reflector.Reflector)
		others int // that fail in the same way
	}
	tests := map[string]test{
		"forbidden":                   {err: forbidden(), lives: 20 * time.Second},
		"throttled":                   {err: throttled(5), lives: 3 * time.Second},
		"throttled, with others":      {err: throttled(5), lives: 3 * time.Second, others: 6},
		"5xx, with others":            {err: unavailable(), lives: 5 * time.Second, others: 6},
		"unreachable, with others":    {err: errDown, lives: 5 * time.Second, others: 6},
		"unreachable, first failure":  {err: errDown, lives: time.Millisecond, others: 6},
		"unauthorized, with others":   {err: unauthorized(), lives: 5 * time.Second, others: 6},
		"hanging":                     {lives: 3 * time.Second},
		"hanging, with others":        {lives: 3 * time.Second, others: 6},
		"paused after a failure":      {err: errDown, lives: 2 * time.Second, before: func(r *reflector.Reflector) { r.Pause() }, others: 6},
		"expedited, with others":      {err: unavailable(), lives: 5 * time.Second, before: func(r *reflector.Reflector) { r.Expedite() }, others: 6},
		"read again, while it hangs":  {lives: 3 * time.Second, before: func(r *reflector.Reflector) { r.Read() }, others: 3},
		"paused while it hangs":       {lives: 3 * time.Second, before: func(r *reflector.Reflector) { r.Pause() }, others: 3},
		"followed again after a rest": {err: unavailable(), lives: time.Minute, before: func(r *reflector.Reflector) { r.Pause(); r.Follow() }, others: 6},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			freed := make(chan struct{})
			var otherFreed [6]chan struct{}
			for i := range otherFreed {
				otherFreed[i] = make(chan struct{})
			}
			gate := reflector.NewGate(reflector.GateOptions{})
			synctest.Test(t, func(t *testing.T) {
				for i := range test.others {
					other := &freedSource{freed: otherFreed[i], err: test.err}
					startParked(t, other, newSecretSlot(), gate)
				}
				startParked(t, watching(opens(state(secret("5"), "7")...)), newSecretSlot(), gate)
				done := make(chan struct{})
				go func() { // the stack of which is gone before the collection
					defer close(done)
					r, ended := reflector.New(&freedSource{freed: freed, err: test.err}, newSecretSlot(), reflector.Options{Gate: gate}), make(chan struct{})
					r.Start(t.Context(), func() { close(ended) })
					time.Sleep(test.lives)
					if test.before != nil {
						test.before(r)
						time.Sleep(time.Millisecond)
					}
					r.Stop()
					<-ended
				}()
				<-done
				synctest.Wait()
				collect(t, freed)
			})
			goruntime.KeepAlive(gate)
		})
	}
}

// A worker that waits for the next event keeps nothing of the last one.
func TestWaitingWorkerKeepsNothing(t *testing.T) {
	for name, small := range map[string]bool{"by a worker": false, "by the connection": true} {
		t.Run(name, func(t *testing.T) {
			freed := make(chan struct{})
			gate := reflector.NewGate(reflector.GateOptions{})
			synctest.Test(t, func(t *testing.T) {
				other := newConnected()
				startParked(t, watching(other.answer), newSecretSlot(), gate)
				synctest.Wait()
				done := make(chan struct{})
				go func() {
					defer close(done)
					stream, slot, ended := newConnected(), newSecretSlot(), make(chan struct{})
					r := reflector.New(&freedSource{parked: stream}, slot, reflector.Options{Gate: gate, Prompt: true})
					r.Start(t.Context(), func() { close(ended) })
					time.Sleep(time.Second)
					object := secret("6")
					goruntime.AddCleanup(object, func(freed chan struct{}) { close(freed) }, freed)
					stream.queueEvents(event(watch.Modified, object))
					stream.wake.Wake(small)
					time.Sleep(time.Millisecond)
					if got := slot.Load().ResourceVersion; got != "6" {
						t.Errorf("got version %s, want 6", got)
					}
					r.Stop()
					<-ended
				}()
				<-done
				synctest.Wait()
				collect(t, freed)
			})
			goruntime.KeepAlive(gate)
		})
	}
}
