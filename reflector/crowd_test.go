// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// crowd is a fleet whose server treats each member as it likes. Its versions
// count its answers, and go back when etcd is restored.
type crowd struct {
	*fleet

	members []*guest

	mu      sync.Mutex
	usual   treatment         // of all members without one of their own
	special map[int]treatment // by member
	version uint64
	content string // the version of the object that each member follows
	calls   int
}

// call is a request that the server treats.
type call struct {
	id     int
	kind   string // of the member: its resource
	number int    // how many requests came before, of anybody
	// watchList tells that the state is asked for as initial events.
	watchList bool
}

// reply is how the server answers a call.
type reply struct {
	err   error         // nil: all is well
	takes time.Duration // half of it until the answer begins, half until the state is there
	hangs bool          // nothing is ever answered
	mute  bool          // the answer begins, and nothing more comes
	lives time.Duration // of a synced stream; 0: until it is cut
}

type treatment func(call) reply

// usually is how long a healthy answer takes.
const usually = 20 * time.Millisecond

func well(call) reply  { return reply{takes: usually} }
func hangs(call) reply { return reply{hangs: true} }
func mute(call) reply  { return reply{mute: true, takes: usually} }
func says(err error) treatment {
	return func(call) reply { return reply{err: err, takes: usually} }
}

// taking slows a treatment down.
func taking(d time.Duration, how treatment) treatment {
	return func(call call) reply {
		r := how(call)
		r.takes = d
		return r
	}
}

func newCrowd(t *testing.T, options reflector.GateOptions) *crowd {
	return &crowd{fleet: newFleet(t, options), usual: well, special: map[int]treatment{}, version: 1_000_000, content: "900000"}
}

// comes has n more members start, and returns their numbers.
func (c *crowd) comes(n int, kind string) (ids []int) {
	for range n {
		ids = append(ids, c.come(kind))
	}
	synctest.Wait()
	return ids
}

func (c *crowd) come(kind string) (id int) {
	m := &guest{Slot: cache.NewSlot(key, cache.SlotOptions[*corev1.Secret]{}), crowd: c, id: len(c.members), kind: kind, came: time.Now(), cut: make(chan struct{})}
	c.members = append(c.members, m)
	var source listwatch.Source = m
	r := &rig{slot: m.Slot}
	r.Reflector = reflector.New(source, m, reflector.Options{Gate: c.gate, Resource: kind, ClientGoReflector: clientGo})
	c.rigs = append(c.rigs, r)
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.wait = func() { <-done }
	r.stop = func() { cancel(); r.wait() }
	c.t.Cleanup(r.stop)
	return m.id
}

// treat changes how the server treats some members from now on.
func (c *crowd) treat(ids []int, how treatment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.special[id] = how; how == nil {
			delete(c.special, id)
		}
	}
}

// treatAll changes how the server treats all others from now on.
func (c *crowd) treatAll(how treatment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usual = how
}

// restore plays an etcd that is restored from a copy: the versions start over
// from that of the copy, and all streams end.
func (c *crowd) restore(version uint64) {
	c.mu.Lock()
	c.version, c.content = version, strconv.FormatUint(version-1, 10)
	c.mu.Unlock()
	c.cut(nil, nil)
}

func (c *crowd) reply(id int, kind string, watchList bool) reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	how, ok := c.special[id]
	if !ok {
		how = c.usual
	}
	c.calls++
	return how(call{id, kind, c.calls - 1, watchList})
}

// answered returns the version of the next answer.
func (c *crowd) answered() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	return strconv.FormatUint(c.version, 10)
}

// future tells whether a version is not known yet.
func (c *crowd) future(version string) bool {
	asked, _ := strconv.ParseUint(version, 10, 64)
	c.mu.Lock()
	defer c.mu.Unlock()
	return asked > c.version
}

// cut ends the streams of some members, all if ids is nil, with an error, or
// regularly, and lets their reflectors notice.
func (c *crowd) cut(ids []int, err error) {
	if ids == nil {
		ids = c.all()
	}
	for _, id := range ids {
		c.members[id].end(err)
	}
	synctest.Wait()
}

func (c *crowd) all() (ids []int) {
	for id := range c.members {
		ids = append(ids, id)
	}
	return ids
}

// wants has somebody wait for some members, for whom it asks at that pace, until
// the returned function is called, or the test ends.
func (c *crowd) wants(ids []int, every time.Duration) (enough func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	var wanted []*rig
	for _, id := range ids {
		wanted = append(wanted, c.rigs[id])
	}
	go func() {
		defer close(done)
		for {
			for _, r := range wanted {
				r.Retry()
			}
			if !sleep(ctx, every) {
				return
			}
		}
	}()
	enough = func() { cancel(); <-done }
	c.t.Cleanup(enough)
	return enough
}

// newcomers has healthy members come, one every pace, of each kind in turn. One
// half of them is waited for.
func (c *crowd) newcomers(n int, every time.Duration, kinds ...string) (awaited, others []int) {
	for i := range n {
		id := c.come(kinds[i/2%len(kinds)])
		if i%2 == 0 {
			c.rigs[id].Retry()
			awaited = append(awaited, id)
		} else {
			others = append(others, id)
		}
		after(every)
	}
	return awaited, others
}

// guest is a member of a crowd: the source of its reflector, and its store.
type guest struct {
	*cache.Slot[*corev1.Secret]

	crowd *crowd
	id    int
	kind  string
	came  time.Time

	mu    sync.Mutex
	reads []time.Time   // when a complete read reached the store
	cut   chan struct{} // closed when the stream ends
	why   error         // it did
}

// Replace is called with every complete read.
func (m *guest) Replace(items []any, version string) error {
	err := m.Slot.Replace(items, version)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads = append(m.reads, time.Now())
	return err
}

// read returns when the first complete read since a moment was.
func (m *guest) read(since time.Time) (at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.reads {
		if !at.Before(since) {
			return at, true
		}
	}
	return time.Time{}, false
}

func (m *guest) end(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why = why
	close(m.cut)
	m.cut = make(chan struct{})
}

func (m *guest) cutting() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut
}

// object is the one that is followed.
func (m *guest) object() *corev1.Secret {
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	return secret(m.crowd.content)
}

// right tells whether the store holds what the server does.
func (m *guest) right() bool {
	state := m.Load()
	return state.Synced && state.Exists && state.Object.ResourceVersion == m.object().ResourceVersion
}

// within wants members to have synced within a time from when they came.
func (c *crowd) within(ids []int, limit time.Duration, about string) {
	c.t.Helper()
	c.fresh(ids, time.Time{}, limit, about)
}

// fresh wants members to have been read since a moment, and within a time of
// it, or of when they came.
func (c *crowd) fresh(ids []int, since time.Time, limit time.Duration, about string) {
	c.t.Helper()
	took, never := c.took(ids, since)
	late := 0
	for _, d := range took {
		if d > limit {
			late++
		}
	}
	if late+never > 0 {
		c.t.Errorf("%s: got %d of %d late, the last after %v, and %d not at all; want all within %v", about, late, len(ids), slices.Max(took), never, limit)
		return
	}
	c.t.Logf("%s: %d, the last after %v", about, len(took), slices.Max(took))
}

// nearly wants 99 in 100 members within a time, and all within another.
func (c *crowd) nearly(ids []int, since time.Time, most, all time.Duration, about string) {
	c.t.Helper()
	c.fresh(ids, since, all, about)
	took, _ := c.took(ids, since)
	slices.Sort(took)
	if n := len(ids) * 99 / 100; len(took) < n || took[n-1] > most {
		c.t.Errorf("%s: got %v for half and %v for most of %d, want 99 in 100 within %v", about, took[len(took)/2], took[len(took)-1], len(took), most)
	}
}

// took is how long members took to be read, from a moment or from when they
// came, and how many never were. There is always one.
func (c *crowd) took(ids []int, since time.Time) (all []time.Duration, never int) {
	for _, id := range ids {
		from := since
		if came := c.members[id].came; came.After(from) {
			from = came
		}
		if at, ok := c.members[id].read(from); ok {
			all = append(all, at.Sub(from))
		} else {
			never++
		}
	}
	if len(all) == 0 {
		all = []time.Duration{0}
	}
	return all, never
}

// rate is how many requests of some members there were in a second, on average,
// since a moment, and how many of the one that asked most.
func (c *crowd) rate(ids []int, since time.Time) (all, each float64) {
	counts := map[int]int{}
	for _, id := range ids {
		counts[id] = 0
	}
	total := 0
	for _, a := range c.requests(-1) {
		if n, ok := counts[a.id]; ok && !a.at.Before(since) {
			counts[a.id] = n + 1
			total++
		}
	}
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	seconds := time.Since(since).Seconds()
	return float64(total) / seconds, float64(most) / seconds
}
