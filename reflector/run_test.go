// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// blocking is a source whose calls last until their context ends.
type blocking struct{ list bool }

func (b blocking) IsWatchListSemanticsUnSupported() bool { return b.list }

func (blocking) List(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (blocking) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Run returns as soon as its context ends, whatever is under way, and leaves
// nothing behind: the bubble would report it.
func TestRunReturnsWhenAllHasEnded(t *testing.T) {
	tests := map[string]listwatch.Source{
		"opening a WatchList":    blocking{},
		"listing":                blocking{list: true},
		"before the bookmark":    &fakeSource{onWatch: streams(opens())},
		"on an open stream":      &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))},
		"in a pause":             &fakeSource{onWatch: streams(fails(errors.New("refused")))},
		"in a throttled pause":   &fakeSource{onWatch: streams(fails(apierrors.NewTooManyRequests("", 60)))},
		"after a foreign object": &fakeSource{onWatch: streams(opens(event(watch.Added, &corev1.Pod{})))},
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, source, reflector.Options{})
				after(time.Second)
				began := time.Now()
				r.stop()
				if took := time.Since(began); took != 0 {
					t.Errorf("Run took %v of virtual time to return, want none", took)
				}
			})
		})
	}
}

func TestStatusTellsOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(
			fails(errors.New("reset")), fails(forbidden()), fails(forbidden()), fails(errors.New("reset")),
			opens(state(secret("5"), "7")...),
		)}, reflector.Options{})
		var refused []bool
		for {
			status := r.Status()
			if status.Failures == 0 {
				break
			}
			for len(refused) < status.Failures {
				refused = append(refused, !status.RefusedSince.IsZero())
			}
			after(10 * time.Millisecond)
		}
		if got, want := fmt.Sprint(refused), "[false true true false]"; got != want {
			t.Errorf("refused after each failure: got %s, want %s", got, want)
		}
		got := r.Status()
		if !got.Synced || len(r.source.seen()) != 5 || got.ResourceVersion != "7" || got.LastContact != time.Now() && got.LastContact.IsZero() {
			t.Errorf("status: got %+v, want synced by the fifth open, at 7", got)
		}
		if !got.RefusedSince.IsZero() {
			t.Errorf("status: got %+v, want no refusal once synced", got)
		}
		if got.LastError == nil || got.LastErrorTime.IsZero() || got.Failures != 0 {
			t.Errorf("status: got %+v, want the last error kept and no failure", got)
		}
	})
}

// failingStore is a store of somebody else's that returns errors.
type failingStore struct{ toolscache.Store }

func (failingStore) Update(object any) error {
	return toolscache.KeyError{Obj: object, Err: errors.New("no key")} // whose text prints the object
}

// logged runs f with klog at a verbosity and returns what was logged.
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

// Peer bug 18, and its like in client-go: whatever goes wrong, no log line and
// no error holds what an object holds.
func TestPeerBug18_NoObjectDataInLogsAndErrors(t *testing.T) {
	other := secret("8")
	other.Name = "other"
	tests := map[string]watch.Event{
		"foreign object": event(watch.Modified, other),
		"unknown event":  event("NEWS", secret("8")),
		"error object":   event(watch.Error, secret("8")),
		"store refuses":  event(watch.Modified, secret("8")),
		"bookmark list":  event(watch.Bookmark, list("8", *secret("8"))),
		"nil bookmark":   event(watch.Bookmark, nil),
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			var status reflector.Status
			log := logged(t, "10", func() {
				synctest.Test(t, func(t *testing.T) {
					source := &fakeSource{onWatch: streams(opens(append(state(secret("5"), "7"), bad)...), opens(state(secret("5"), "9")...))}
					store := failingStore{toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}
					r := reflector.New(source, store, reflector.Options{Name: "secrets"})
					if name == "foreign object" {
						r = start(t, source, reflector.Options{}).Reflector
					} else {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						r.Run(ctx)
					}
					after(time.Second)
					status = r.Status()
				})
			})
			if status.LastError == nil || strings.Contains(status.LastError.Error(), canary) {
				t.Errorf("error: got %v, want one without object data", status.LastError)
			}
			if !strings.Contains(log, "Cannot read the object") {
				t.Errorf("log: got %q, want the failure told", log)
			}
			for _, form := range []string{canary, "Y2FuYXJ5", "99, 97, 110", "99 97 110"} {
				if strings.Contains(log, form) {
					t.Errorf("log holds object data (%q):\n%s", form, log)
				}
			}
		})
	}
}

// Any ListerWatcher is a source; the fake clientset is one that cannot do
// WatchList and says so.
func TestFromListerWatcher(t *testing.T) {
	client := fake.NewClientset(secret("5"))
	lw := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", key.Name).String()
			list, err := client.CoreV1().Secrets(key.Namespace).List(ctx, options)
			if err == nil {
				list.ResourceVersion = "7" // the fake gives none
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Secrets(key.Namespace).Watch(ctx, options)
		},
	}, client)
	synctest.Test(t, func(t *testing.T) {
		r := start(t, listwatch.FromListerWatcher(lw), reflector.Options{})
		if got := r.slot.Load(); !got.Synced || got.ResourceVersion != "5" {
			t.Errorf("state: got %+v, want synced at 5", got)
		}
		if _, err := client.CoreV1().Secrets(key.Namespace).Update(t.Context(), secret("8"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.slot.Load(); got.ResourceVersion != "8" {
			t.Errorf("state after an update: got %+v, want version 8", got)
		}
	})
}

// The first failure, and each of another class, is a line at level 0; nothing else
// is. client-go's Reflector warns there of every stream that is short or silent.
func TestLinesAtLevel0(t *testing.T) {
	reset := fails(errors.New("reset"))
	tests := map[string]struct {
		open []func() (listwatch.Stream, error)
		want int
	}{
		"short streams": {[]func() (listwatch.Stream, error){breaks(io.EOF, state(secret("5"), "7")...)}, 0},
		"failing":       {[]func() (listwatch.Stream, error){reset}, 1},
		"other classes": {[]func() (listwatch.Stream, error){reset, reset, fails(forbidden()), fails(forbidden()), reset}, 3},
		"failing again": {[]func() (listwatch.Stream, error){reset, reset, breaks(io.EOF, state(secret("5"), "7")...), reset}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log := logged(t, "0", func() {
				synctest.Test(t, func(t *testing.T) {
					start(t, &fakeSource{
						onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("5")), nil },
						onWatch: streams(test.open...),
					}, reflector.Options{})
					after(time.Minute)
				})
			})
			if got := strings.Count(log, "\n"); got != test.want {
				t.Errorf("lines at level 0: got %d, want %d:\n%s", got, test.want, log)
			}
		})
	}
}

// Lines at level 0 are bounded, however many reflectors fail.
func TestLinesAtLevel0AreBounded(t *testing.T) {
	log := logged(t, "0", func() {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, reflector.GateOptions{})
			f.answers(always(forbidden()))
			f.start(1000, "secrets")
			after(time.Minute)
		})
	})
	if got := strings.Count(log, "\n"); got < 5 || got > 20 {
		t.Errorf("lines at level 0 in a minute: got %d, want a few, and at most 20", got)
	}
}

// lingering is a source and its stream, whose Next returns a while after its
// context has ended.
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
	synctest.Test(t, func(t *testing.T) {
		source := &lingering{}
		r := start(t, source, reflector.Options{})
		r.stop()
		if source.ended.IsZero() {
			t.Error("Run returned while a goroutine of it was still reading")
		}
	})
}
