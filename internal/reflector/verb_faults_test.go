// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/testmain"
)

// verbFault is how a verb fails for good; a nil error hangs.
type verbFault struct {
	name string
	err  func() error
}

var (
	noFault    = verbFault{name: "well"}
	verbFaults = []verbFault{
		{"400", func() error { return refusal(400) }},
		{"403", forbidden},
		{"404", func() error { return refusal(404) }},
		{"405", func() error { return refusal(405) }},
		{"410", func() error { return refusal(410) }},
		{"429", func() error { return throttled(1) }},
		{"500", unreadable},
		{"503", unavailable},
		{"too large", tooLarge},
		{"reset", func() error { return io.ErrUnexpectedEOF }},
		{"not decodable", func() error { return cache.ErrMalformed }},
		{"hangs", func() error { return nil }},
	}
)

// fail fails as the verb does.
func (f verbFault) fail(ctx context.Context) error {
	if f.err == nil {
		return nil
	}
	if err := f.err(); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// verbSource is one object of a server whose verbs fail, each in its own way, once the faults have begun.
type verbSource struct {
	watchList, list, watch verbFault
	began                  *atomic.Bool
	version                *atomic.Int64 // of the object
	requests               atomic.Int64

	mu   sync.Mutex
	open []*fakeStream
}

func (s *verbSource) ask(ctx context.Context, fault verbFault) error {
	s.requests.Add(1)
	if !s.began.Load() {
		return nil
	}
	return fault.fail(ctx)
}

func (s *verbSource) List(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	if err := s.ask(ctx, s.list); err != nil {
		return nil, err
	}
	version := strconv.FormatInt(s.version.Load(), 10)
	return list(version, secret(version)), nil
}

func (s *verbSource) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	fault, events := s.watch, []watch.Event(nil)
	if options.SendInitialEvents != nil {
		version := strconv.FormatInt(s.version.Load(), 10)
		fault, events = s.watchList, state(secret(version), version)
	}
	if err := s.ask(ctx, fault); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := newStream(events...)
	stream.endWith(ctx)
	s.open = append(s.open, stream)
	return stream, nil
}

// cut ends all streams.
func (s *verbSource) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range s.open {
		stream.finish(io.ErrUnexpectedEOF)
	}
	s.open = nil
}

// A verb that fails for good beside one that works leaves no object stale or unserved: all pairs of a WatchList and a
// watch that fail, and each list, for an object that is known, and for a new one, alone or beside others that are well.
func TestVerbThatFailsForGood(t *testing.T) {
	testmain.Long(t)
	for _, fault := range verbFaults {
		for _, watchFault := range append([]verbFault{noFault}, verbFaults...) {
			for _, listed := range []bool{true, false} {
				if listed && watchFault.err != nil {
					continue // there is no watch after a list that fails
				}
				for _, known := range []bool{true, false} {
					for _, others := range []int{0, 3} {
						test := verbCell{n: 1, others: others, known: known, fresh: 3 * time.Minute, hourly: 400}
						verb := "WatchList"
						test.fault = verbSource{watchList: fault, watch: watchFault}
						if listed {
							verb = "list"
							test.fault = verbSource{list: fault, watch: watchFault}
						}
						name := fmt.Sprintf("%s %s, watch %s, known %v, beside %d", verb, fault.name, watchFault.name, known, others)
						t.Run(name, func(t *testing.T) { synctest.Test(t, test.run) })
					}
				}
			}
		}
	}
}

// The same for 1,000 objects, where objects may starve each other. They share 20 attempts a second, which is 72 an hour
// for each.
func TestVerbThatFailsForManyObjects(t *testing.T) {
	testmain.Long(t)
	for _, name := range []string{"403", "hangs"} {
		fault := verbFaults[slices.IndexFunc(verbFaults, func(f verbFault) bool { return f.name == name })]
		for _, known := range []bool{true, false} {
			if !known && name != "hangs" {
				continue // each cell takes seconds
			}
			test := verbCell{n: 1000, known: known, fresh: 5 * time.Minute, hourly: 100, fault: verbSource{watchList: fault, watch: fault}}
			t.Run(fmt.Sprintf("%s, known %v", name, known), func(t *testing.T) { synctest.Test(t, test.run) })
		}
	}
}

// verbCell is one cell of the table of verbs.
type verbCell struct {
	fault     verbSource
	n, others int
	known     bool
	fresh     time.Duration
	hourly    int // requests of each object
}

func (c *verbCell) run(t *testing.T) {
	var began atomic.Bool
	var version atomic.Int64
	version.Store(5)
	gate := reflector.NewGate(reflector.GateOptions{})
	options := reflector.Options{Gate: gate, Resource: "secrets"}
	for range c.others {
		start(t, &verbSource{began: &began, version: &version}, options)
	}
	var sources []*verbSource
	var rigs []*rig
	begin := func() {
		for range c.n {
			s := &verbSource{watchList: c.fault.watchList, list: c.fault.list, watch: c.fault.watch, began: &began, version: &version}
			sources = append(sources, s)
			rigs = append(rigs, start(t, s, options))
		}
	}
	if c.known {
		begin()
		time.Sleep(time.Minute)
	}
	began.Store(true)
	version.Add(1)
	for _, s := range sources {
		s.cut()
	}
	if !c.known {
		begin()
	}
	c.wantFresh(t, "the first", rigs, version.Load())
	time.Sleep(30 * time.Minute)
	if c.fault.watchList.err != nil && c.fault.watch.err != nil {
		version.Add(1) // no stream is open
		c.wantFresh(t, "a later", rigs, version.Load())
	}
	before := int64(0)
	for _, s := range sources {
		before += s.requests.Load()
	}
	time.Sleep(time.Hour)
	after := int64(0)
	for _, s := range sources {
		after += s.requests.Load()
	}
	if got := float64(after-before) / float64(c.n); got > float64(c.hourly) {
		t.Errorf("requests an hour of an object: got %.0f, want %d at most", got, c.hourly)
	}
}

func (c *verbCell) wantFresh(t *testing.T, what string, rigs []*rig, version int64) {
	want := strconv.FormatInt(version, 10)
	began := time.Now()
	for time.Since(began) < c.fresh {
		time.Sleep(time.Second)
		stale := 0
		for _, r := range rigs {
			if r.slot.Load().ResourceVersion != want {
				stale++
			}
		}
		if stale == 0 {
			return
		}
	}
	stale, status := 0, reflector.Status{}
	for _, r := range rigs {
		if r.slot.Load().ResourceVersion != want {
			stale, status = stale+1, r.Status()
		}
	}
	if stale > 0 {
		t.Fatalf("%v after %s version: %d of %d objects are stale; one: %+v", c.fresh, what, stale, len(rigs), status)
	}
}
