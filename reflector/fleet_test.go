// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// fleet is many reflectors that share a gate, and the server that they ask.
type fleet struct {
	t    *testing.T
	gate *reflector.Gate
	rigs []*rig

	mu      sync.Mutex
	manner  manner
	asked   []ask
	opening int
	most    int // of opening, ever
}

// manner is how the server of a fleet answers.
type manner struct {
	answer func(id int) error // to the reflector with that number; nil: all is well
	takes  time.Duration      // from a request to the end of the initial events
	lives  time.Duration      // how long a synced stream does; 0: until it is broken
	broken chan struct{}      // closed when all streams break
}

// ask is one request, and whose.
type ask struct {
	id    int
	verb  string
	lists bool // not a WatchList
	at    time.Time
}

func newFleet(t *testing.T, options reflector.GateOptions) *fleet {
	return &fleet{t: t, gate: reflector.NewGate(options), manner: manner{answer: always(nil), broken: make(chan struct{})}}
}

// start starts n more reflectors, one after the other, of a resource.
func (f *fleet) start(n int, resource string) {
	for range n {
		m := &member{f, len(f.rigs)}
		f.rigs = append(f.rigs, start(f.t, m, reflector.Options{Gate: f.gate, Resource: resource}))
	}
}

// answers changes how the server answers from now on.
func (f *fleet) answers(answer func(id int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.manner.answer = answer
}

// takes changes how long the server needs for an answer from now on.
func (f *fleet) takes(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.manner.takes = d
}

// breakStreams ends all streams there are, and lets their reflectors notice.
func (f *fleet) breakStreams() {
	f.mu.Lock()
	close(f.manner.broken)
	f.manner.broken = make(chan struct{})
	f.mu.Unlock()
	synctest.Wait()
}

func always(err error) func(int) error { return func(int) error { return err } }

// requests are those of reflector id, of all if it is negative.
func (f *fleet) requests(id int) []ask {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []ask
	for _, a := range f.asked {
		if id < 0 || a.id == id {
			all = append(all, a)
		}
	}
	return all
}

// forget has requests and most tell of what comes from now on.
func (f *fleet) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.most = nil, f.opening
}

func (f *fleet) mostOpening() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// order is whose requests came one after the other.
func (f *fleet) order() []int {
	var ids []int
	for _, a := range f.requests(-1) {
		ids = append(ids, a.id)
	}
	return ids
}

// synced is how many reflectors are synced and well.
func (f *fleet) synced() int {
	count := 0
	for _, r := range f.rigs {
		if status := r.Status(); status.Synced && status.Failures == 0 {
			count++
		}
	}
	return count
}

func (f *fleet) stop() {
	for _, r := range f.rigs {
		r.stop()
	}
}

// begin notes a request and returns how it is answered.
func (f *fleet) begin(id int, verb string, options metav1.ListOptions) manner {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, ask{id, verb, options.SendInitialEvents == nil, time.Now()})
	f.opening++
	f.most = max(f.most, f.opening)
	return f.manner
}

func (f *fleet) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opening--
}

// member is the source of one reflector of a fleet. The object is not there.
type member struct {
	fleet *fleet
	id    int
}

func (m *member) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	how := m.fleet.begin(m.id, "list", options)
	defer m.fleet.end()
	if !sleep(ctx, how.takes) {
		return nil, ctx.Err()
	}
	return list("7"), how.answer(m.id)
}

func (m *member) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	how := m.fleet.begin(m.id, "watch", options)
	if !sleep(ctx, how.takes/2) {
		m.fleet.end()
		return nil, ctx.Err()
	}
	if err := how.answer(m.id); err != nil {
		m.fleet.end()
		return nil, err
	}
	stream := &memberStream{member: m, how: how, ctx: ctx, closed: make(chan struct{}), state: options.SendInitialEvents != nil}
	if how.lives > 0 {
		time.AfterFunc(how.lives, func() { _ = stream.Close() })
	}
	return stream, nil
}

// sleep tells whether all of the time went by. It does without a timer that has
// a channel: many of them, due at the same moment, are more than the race
// detector can take (go.dev/issue/78156).
func sleep(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}

// memberStream counts as opening until it has told the state.
type memberStream struct {
	*member

	how    manner
	ctx    context.Context
	state  bool // still to be told
	end    sync.Once
	close  sync.Once
	closed chan struct{}
}

func (s *memberStream) Next() (watch.Event, error) {
	if s.state {
		s.state = false
		if !sleep(s.ctx, s.how.takes/2) {
			return watch.Event{}, s.ctx.Err()
		}
		s.end.Do(s.fleet.end)
		return bookmark("7", true), nil
	}
	s.end.Do(s.fleet.end)
	select {
	case <-s.ctx.Done():
		return watch.Event{}, s.ctx.Err()
	case <-s.closed:
	case <-s.how.broken:
	}
	return watch.Event{}, io.EOF
}

func (s *memberStream) Close() error {
	s.end.Do(s.fleet.end)
	s.close.Do(func() { close(s.closed) })
	return nil
}
