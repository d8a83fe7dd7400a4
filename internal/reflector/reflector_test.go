// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Run returns as soon as it is stopped, and what it started has ended then: the bubble
// would report a goroutine that is left.
func TestRunEnds(t *testing.T) {
	ends := map[string]func(*rig){
		"context": func(r *rig) { r.stop() },
		"Stop":    func(r *rig) { r.Stop(); r.Stop(); r.wait() },
	}
	parkedAndBlocking(t, func(t *testing.T) {
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				tests := map[string]listwatch.Source{
					"opening a WatchList":     blocking{},
					"listing":                 blockingLists{},
					"before the bookmark":     watching(opens()),
					"on an open stream":       watching(opens(state(secret("5"), "7")...)),
					"pausing after a refusal": watching(fails(forbidden())),
					"pausing in an outage":    watching(fails(errDown)),
					"pausing after a 429":     watching(fails(throttled(60))),
					"after a foreign object":  watching(opens(event(watch.Added, &corev1.Pod{}))),
				}
				eachCase(t, tests, func(t *testing.T, source listwatch.Source) {
					changes := 0
					gate := reflector.NewGate(reflector.GateOptions{})
					r := start(t, source, reflector.Options{Gate: gate, OnChange: func() { changes++ }})
					after(1700 * time.Millisecond)
					before, changesBefore, began := r.Status(), changes, time.Now()
					end(r)
					if took := time.Since(began); took != 0 {
						t.Errorf("Run took %v of virtual time to return, want none", took)
					}
					if got := r.Status(); got.Failures != before.Failures || changes != changesBefore {
						t.Errorf("status: got %+v after %+v and %d changes, want no failure from the end", got, before, changes-changesBefore)
					}
					if got := gate.Status(); got.Opening != 0 || got.Queued != 0 {
						t.Errorf("gate: got %+v, want it empty", got)
					}
				})
			})
		}
	})
}

// lingering is a source and its stream. Its Next returns a second after its context
// has ended.
type lingering struct {
	*fakeSource

	ctx   context.Context
	ended time.Time
}

func (l *lingering) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	l.ctx = ctx
	return l, nil
}

func (l *lingering) Next() (watch.Event, error) {
	<-l.ctx.Done()
	time.Sleep(time.Second)
	l.ended = time.Now()
	return watch.Event{}, io.EOF
}

func (l *lingering) Close() error { return nil }

func TestRunWaitsForItsReader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := &lingering{}
		r := start(t, source, reflector.Options{})
		r.stop()
		if source.ended.IsZero() {
			t.Error("Run returned while one of its goroutines was still reading")
		}
	})
}

func TestRunsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{})
		r.Run(t.Context()) // returns, or the bubble reports a deadlock
		r.stop()
		r.Run(t.Context())
		if got := len(r.source.seen()); got != 1 {
			t.Errorf("requests: got %d, want 1 of the first run", got)
		}
	})
}

func TestOnChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var calls atomic.Int32
		stream := newStream(state(secret("5"), "7")...)
		start(t, watching(fails(errors.New("reset")), stream.answer), reflector.Options{OnChange: func() { calls.Add(1) }})
		if calls.Load() != 1 {
			t.Errorf("after a failure: got %d calls, want 1", calls.Load())
		}
		after(time.Second)
		if calls.Load() != 2 {
			t.Errorf("after the sync: got %d calls, want 2", calls.Load())
		}
		stream.events <- event(watch.Modified, secret("8"))
		synctest.Wait()
		if calls.Load() != 3 {
			t.Errorf("after an event: got %d calls, want 3", calls.Load())
		}
	})
}

// fromREST returns a source of the object on an API server.
func fromREST(server *apiserver.Server) listwatch.Source {
	secrets := &listwatch.RESTResource{
		Client: server.Client().CoreV1().RESTClient(), Name: "secrets",
		NewObject: func() runtime.Object { return &corev1.Secret{} },
		NewList:   func() runtime.Object { return &corev1.SecretList{} },
	}
	return listwatch.FromREST(secrets, key.Namespace, key.Name)
}

// A reflector on an API server reads the state, opens a new stream when one ends, and
// leaves no stream behind.
func TestFromREST(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		r := start(t, fromREST(server), reflector.Options{})
		if got := r.slot.Load(); !got.Synced || got.Exists {
			t.Errorf("state: got %+v, want it synced and absent", got)
		}
		server.CloseStreams(nil)
		after(time.Second)
		if got := r.Status(); !got.Streaming || got.Failures != 0 || len(server.Requests()) != 2 {
			t.Errorf("status: got %+v, want a second stream", got)
		}
		r.stop()
		synctest.Wait()
		if got := server.TotalStreams(); got != 0 {
			t.Errorf("streams after the stop: got %d, want none", got)
		}
	})
}

// Any ListerWatcher is a source. The fake clientset reports that it does not support
// WatchList.
func TestFromListerWatcher(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		client := fake.NewClientset(secret("5"))
		secrets := client.CoreV1().Secrets(key.Namespace)
		lw := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = fields.OneTermEqualSelector("metadata.name", key.Name).String()
				list, err := secrets.List(ctx, options)
				if err == nil {
					list.ResourceVersion = "7" // the fake gives none
				}
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return secrets.Watch(ctx, options)
			},
		}, client)
		synctest.Test(t, func(t *testing.T) {
			r := start(t, listwatch.FromListerWatcher(lw), reflector.Options{})
			if got := r.slot.Load(); !got.Synced || got.ResourceVersion != "5" {
				t.Errorf("state: got %+v, want synced at 5", got)
			}
			if _, err := secrets.Update(t.Context(), secret("8"), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := r.slot.Load(); got.ResourceVersion != "8" {
				t.Errorf("state after an update: got %+v, want version 8", got)
			}
		})
	})
}
