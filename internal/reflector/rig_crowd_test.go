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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/histogram"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

// crowd is many reflectors that share a gate, and the server that answers them. Each
// member is known by its number, from 0 on. The versions of the server count its
// answers, and are lower again after restore.
type crowd struct {
	t        *testing.T
	gate     *reflector.Gate     // nil: each member has a gate of its own
	listOnly bool                // the members added from now on do not support WatchList
	counters *reflector.Counters // of all members; may be nil
	members  []*member

	mu       sync.Mutex
	usual    behavior         // to members without a behavior of their own
	special  map[int]behavior // by member
	version  uint64
	content  string // the version of the object that each member reads
	calls    int
	requests []request
	opening  int
	most     int // the highest value of opening
}

// call is a request to the server of a crowd.
type call struct {
	id        int
	resource  string
	number    int // how many requests there were before, of all members
	watchList bool
}

// answer is how the server answers a call.
type answer struct {
	err    error         // nil: the answer is the state
	takes  time.Duration // half of it until the answer begins, half until the state is complete
	hangs  bool          // no answer begins
	stalls bool          // the answer begins, and nothing follows
	lives  time.Duration // of a synced stream; 0: until it is cut
}

// behavior is how the server treats a member.
type behavior func(call) answer

// usually is how long a healthy answer takes.
const usually = 20 * time.Millisecond

func healthy(call) answer  { return answer{takes: usually} }
func hanging(call) answer  { return answer{hangs: true} }
func stalling(call) answer { return answer{stalls: true, takes: usually} }
func failing(err error) behavior {
	return func(call) answer { return answer{err: err, takes: usually} }
}
func atOnce(err error) behavior { return taking(0, failing(err)) }

// taking is a behavior whose answers take that long.
func taking(d time.Duration, b behavior) behavior {
	return func(c call) answer {
		a := b(c)
		a.takes = d
		return a
	}
}

// skipCrowd skips a test that takes long, because of its many objects, if go test has the flag -short.
func skipCrowd(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many objects: not with -short")
	}
}

// newCrowd returns a crowd without members. It skips the test if go test has the flag -short.
func newCrowd(t *testing.T, options reflector.GateOptions, usual behavior) *crowd {
	t.Helper()
	skipCrowd(t)
	return &crowd{
		t: t, gate: reflector.NewGate(options), usual: usual, special: map[int]behavior{},
		version: 1_000_000, content: "900000",
	}
}

// add starts n more members, one after the other, and returns their numbers.
func (c *crowd) add(n int, resource string) (ids []int) {
	for range n {
		ids = append(ids, c.addOne(resource))
		synctest.Wait()
	}
	return ids
}

func (c *crowd) addOne(resource string) (id int) {
	m := &member{crowd: c, id: len(c.members), resource: resource, added: time.Now(), ended: make(chan struct{})}
	m.state = &recordingSlot{Slot: storetest.NewSlot[*corev1.Secret](key)}
	c.members = append(c.members, m)
	var source listwatch.Source = m
	if c.listOnly {
		source = struct {
			*member
			noWatchList
		}{member: m}
	}
	m.rig = startWith(c.t, source, m.state, reflector.Options{Gate: c.gate, Resource: resource, Counters: c.counters})
	m.slot = m.state.Slot
	return m.id
}

// addEvery adds n members, one at each pace, of each resource in turn. A caller waits
// for each second one.
func (c *crowd) addEvery(pace time.Duration, n int, resources ...string) (awaited, others []int) {
	for i := range n {
		id := c.addOne(resources[i/2%len(resources)])
		if i%2 == 0 {
			c.members[id].Expedite()
			awaited = append(awaited, id)
		} else {
			others = append(others, id)
		}
		after(pace)
	}
	return awaited, others
}

// serve changes how the server treats some members from now on; nil: as the others.
func (c *crowd) serve(ids []int, b behavior) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.special[id] = b; b == nil {
			delete(c.special, id)
		}
	}
}

// serveAll changes how the server treats the others from now on.
func (c *crowd) serveAll(b behavior) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usual = b
}

// cut ends the streams of some members, with an error or, if it is nil, regularly.
func (c *crowd) cut(ids []int, err error) {
	for _, id := range ids {
		c.members[id].end(err)
	}
	synctest.Wait()
}

func (c *crowd) cutAll(err error) { c.cut(c.all(), err) }

func (c *crowd) all() []int { return numbers(len(c.members)) }

// restore simulates an etcd that is restored from a backup: the versions begin again
// from that of the backup, and all streams end.
func (c *crowd) restore(version uint64) {
	c.mu.Lock()
	c.version, c.content = version, strconv.FormatUint(version-1, 10)
	c.mu.Unlock()
	c.cutAll(nil)
}

// retryEvery calls Expedite of some members at each pace, until stop is called or the
// test ends.
func (c *crowd) retryEvery(pace time.Duration, ids []int) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	var some []*member
	for _, id := range ids {
		some = append(some, c.members[id])
	}
	go func() {
		defer close(done)
		for sleeps := true; sleeps; sleeps = sleep(ctx, pace) {
			for _, m := range some {
				m.Expedite()
			}
		}
	}()
	stop = func() { cancel(); <-done }
	c.t.Cleanup(stop)
	return stop
}

func (c *crowd) stop() {
	for _, m := range c.members {
		m.stop()
	}
}

// seen returns the requests of all members.
func (c *crowd) seen() []request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// seenOf returns the requests of some members.
func (c *crowd) seenOf(ids ...int) []request {
	return slices.DeleteFunc(c.seen(), func(r request) bool { return !slices.Contains(ids, r.id) })
}

// order returns the member of each request.
func (c *crowd) order() (ids []int) {
	for _, r := range c.seen() {
		ids = append(ids, r.id)
	}
	return ids
}

// forget makes seen and mostOpening begin again.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests, c.most = nil, c.opening
}

// mostOpening returns how many members were reading their state at the same time.
func (c *crowd) mostOpening() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// synced returns how many members are synced and do not fail.
func (c *crowd) synced() (count int) {
	for _, m := range c.members {
		if status := m.Status(); status.Synced && status.Failures == 0 {
			count++
		}
	}
	return count
}

// begin records a request and returns its answer.
func (c *crowd) begin(m *member, verb string, options metav1.ListOptions) answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, request{m.id, verb, options, time.Now()})
	c.opening++
	c.most = max(c.most, c.opening)
	b, ok := c.special[m.id]
	if !ok {
		b = c.usual
	}
	c.calls++
	return b(call{m.id, m.resource, c.calls - 1, options.SendInitialEvents != nil})
}

func (c *crowd) opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening--
}

// nextVersion returns the version of the next answer.
func (c *crowd) nextVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	return strconv.FormatUint(c.version, 10)
}

// isFuture reports whether the server does not have a version yet.
func (c *crowd) isFuture(version string) bool {
	asked, _ := strconv.ParseUint(version, 10, 64)
	c.mu.Lock()
	defer c.mu.Unlock()
	return asked > c.version
}

// object is the one that each member reads.
func (c *crowd) object() *corev1.Secret {
	c.mu.Lock()
	defer c.mu.Unlock()
	return secret(c.content)
}

// numbers returns 0 to n-1.
func numbers(n int) (ids []int) {
	for id := range n {
		ids = append(ids, id)
	}
	return ids
}

// every returns each n-th of some members, at most m of them.
func every(n, m int, ids []int) (some []int) {
	for i := 0; i < len(ids) && len(some) < m; i += n {
		some = append(some, ids[i])
	}
	return some
}

// without returns the members that are not among some.
func without(ids, some []int) []int {
	return slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return slices.Contains(some, id) })
}

// statusNow returns the state of a gate, without what it has counted and noted of streams
// that are open.
func statusNow(gate *reflector.Gate) reflector.GateStatus {
	status := gate.Status()
	status.Waits, status.NotParked = histogram.Snapshot{}, nil
	return status
}
