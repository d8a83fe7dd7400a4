// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
)

// getter is a reflector.Getter.
type getter struct {
	get      func(context.Context) (runtime.Object, error)
	requests atomic.Int32
}

func (g *getter) GetObject(ctx context.Context) (runtime.Object, error) {
	g.requests.Add(1)
	return g.get(ctx)
}

// getStore is a store that reads its object.
type getStore struct {
	*replaced
	*getter
}

// replaced is a store that records complete reads.
type replaced struct {
	toolscache.ReflectorStore

	mu       sync.Mutex
	reads    []string
	versions []string // of a ResourceVersionUpdater
}

func (r *replaced) Replace(items []any, version string) error {
	names := []string{"at " + version}
	for _, item := range items {
		names = append(names, item.(metav1.Object).GetResourceVersion())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads = append(r.reads, strings.Join(names, " "))
	return nil
}

func (r *replaced) UpdateResourceVersion(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions = append(r.versions, version)
}

// got returns the reads and the versions so far.
func (r *replaced) got() (reads, versions []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reads), slices.Clone(r.versions)
}

// reading runs a reflector that reads with nothing but GETs.
func reading(t *testing.T, get *getter, options reflector.Options) (*rig, *replaced) {
	store := &replaced{}
	options.Gets = reflector.OnlyGets
	r := startWith(t, watching(), getStore{store, get}, options, (*reflector.Reflector).Read)
	synctest.Wait()
	return r, store
}

// A GET says nothing about lists and watches: neither one that hangs, nor one that works after it. It has no version
// that others could read at.
func TestGetSaysNothingOfOtherVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		watched := start(t, watching(opens(state(secret("5"), "9")...), fails(throttled(30)), opens(state(secret("5"), "9")...)), options)
		for range 2 {
			hangs := true
			reading(t, &getter{get: func(ctx context.Context) (runtime.Object, error) {
				if hangs {
					hangs = false
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return secret("50"), nil
			}}, options)
		}
		after(time.Second)
		watched.Refresh()
		after(time.Minute)
		if got, want := watched.source.asked(), []string{"WatchList ", "WatchList ", "WatchList "}; !slices.Equal(got, want) {
			t.Errorf("requests of another reflector: got %q, want consistent reads", got)
		}
		joined := start(t, watching(opens(state(secret("5"), "9")...)), options)
		if joined.source.count("list") > 0 {
			t.Errorf("requests of a new reflector: got %q, want no list", joined.source.asked())
		}
	})
}

// The object is read with one GET for each Read. An absence reaches the store as an empty read.
func TestGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var object runtime.Object = secret("5")
		source := &getter{get: func(context.Context) (runtime.Object, error) { return object, nil }}
		r, store := reading(t, source, reflector.Options{})
		after(time.Hour)
		object = nil
		r.ReadFor(3)
		r.Read()
		synctest.Wait()
		reads, versions := store.got()
		if want := []string{"at  5", "at "}; !slices.Equal(reads, want) || len(versions) > 0 {
			t.Errorf("the store got %q and the versions %q, want %q and none", reads, versions, want)
		}
		if got := r.Status(); int(source.requests.Load()) != 2 || !got.Synced || got.ReadFor != 3 || got.ResourceVersion != "" || !got.LastContact.Equal(time.Now()) || got.Failures > 0 {
			t.Errorf("got %d requests and %+v, want 2 and the second read", int(source.requests.Load()), got)
		}
	})
}

// GETs that fail follow each other after pauses, until one succeeds.
func TestGetBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := forbidden()
		var works atomic.Bool
		source := &getter{get: func(context.Context) (runtime.Object, error) {
			if works.Load() {
				return secret("5"), nil
			}
			return nil, failure
		}}
		began := time.Now()
		r, store := reading(t, source, reflector.Options{})
		after(10 * time.Minute)
		status := r.Status()
		if n := int(source.requests.Load()); n < 50 || n > 100 || status.Failures != n || !errors.Is(status.LastError, failure) || !status.RefusedSince.Equal(began) {
			t.Errorf("got %d requests and %+v, want one in 7.5 to 15 s, all of them refused", n, status)
		}
		works.Store(true)
		after(15 * time.Second)
		requests := int(source.requests.Load())
		after(time.Hour)
		reads, _ := store.got()
		if status = r.Status(); int(source.requests.Load()) != requests || len(reads) != 1 || status.Failures != 0 || !status.RefusedSince.IsZero() {
			t.Errorf("got %d requests after the success, %d reads and %+v, want none, one and no failure", int(source.requests.Load())-requests, len(reads), status)
		}
	})
}

// A GET that panics, hangs, or fails with a text that may quote an object is a failure.
func TestGetFailures(t *testing.T) {
	for name, test := range map[string]struct {
		get  func(context.Context) (runtime.Object, error)
		want string
		took time.Duration
	}{
		"panic":         {func(context.Context) (runtime.Object, error) { panic(canary) }, "panic: a string in", 0},
		"hangs":         {func(ctx context.Context) (runtime.Object, error) { <-ctx.Done(); return nil, ctx.Err() }, "no answer from the server", 30 * time.Second},
		"quotes":        {func(context.Context) (runtime.Object, error) { return nil, errors.New(canary) }, "hidden because it may quote", 0},
		"readable":      {func(context.Context) (runtime.Object, error) { return nil, io.EOF }, "EOF", 0},
		"an other type": {func(context.Context) (runtime.Object, error) { return &corev1.Pod{}, nil }, "*v1.Pod", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, store := reading(t, &getter{get: test.get}, reflector.Options{ExpectedType: &corev1.Secret{}})
				after(test.took)
				status := r.Status()
				reads, _ := store.got()
				if status.LastError == nil || !strings.Contains(status.LastError.Error(), test.want) || strings.Contains(fmt.Sprint(status), canary) ||
					!status.LastErrorTime.Equal(began.Add(test.took)) || len(reads) > 0 {
					t.Errorf("got %+v, want the failure %q after %v", status, test.want, test.took)
				}
			})
		})
	}
}

// Pause and Stop end a GET. That is no failure, and the GET after it is the only one.
func TestGetIsGivenUp(t *testing.T) {
	for name, end := range map[string]func(*reflector.Reflector){"Pause": (*reflector.Reflector).Pause, "Stop": (*reflector.Reflector).Stop} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &getter{get: func(ctx context.Context) (runtime.Object, error) { <-ctx.Done(); return nil, ctx.Err() }}
				gate := reflector.NewGate(reflector.GateOptions{Opens: 1})
				r, _ := reading(t, source, reflector.Options{Gate: gate})
				if r.Status().AskedAt.IsZero() {
					t.Error("status during a GET: got no time of the request")
				}
				end(r.Reflector)
				after(time.Minute)
				if got := r.Status(); int(source.requests.Load()) != 1 || got.Failures > 0 || !got.AskedAt.IsZero() {
					t.Errorf("got %d requests and %+v, want one and no failure", int(source.requests.Load()), got)
				}
				if got := statusNow(gate); got.Opening+got.Queued+got.Paused > 0 || got.Cause != nil {
					t.Errorf("gate: got %+v, want an idle one", got)
				}
			})
		})
	}
}
