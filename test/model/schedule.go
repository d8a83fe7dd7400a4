// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
)

// Step is one action of a schedule: an operation and its arguments. Arguments that are missing are 0. Steps with an
// unknown operation do not exist: see [Parse].
type Step struct {
	Op   string
	Args []int
}

// Schedule is the steps of a run, in their order. Those that begin with "with" are applied first.
type Schedule []Step

// Parse returns the schedule that String has printed.
func Parse(text string) (s Schedule, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		step := Step{Op: fields[0]}
		fields = fields[1:]
		if _, ok := operations[step.Op+" "+firstOf(fields)]; ok { // such as "with idle-timeout" and "inject hang"
			step.Op += " " + fields[0]
			fields = fields[1:]
		}
		if _, ok := operations[step.Op]; !ok {
			return nil, fmt.Errorf("parse schedule: %q: there is no such step", strings.TrimSpace(line))
		}
		for _, field := range fields {
			arg, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("parse schedule: %q: %w", strings.TrimSpace(line), err)
			}
			step.Args = append(step.Args, arg)
		}
		s = append(s, step)
	}
	return s, nil
}

func firstOf(fields []string) string {
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

// String returns one line for each step.
func (s Schedule) String() string {
	var b strings.Builder
	for _, step := range s {
		b.WriteString(step.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the operation and the arguments.
func (s Step) String() string {
	text := s.Op
	for _, arg := range s.Args {
		text += " " + strconv.Itoa(arg)
	}
	return text
}

// arg returns an argument.
func (s Step) arg(i int) int {
	if i >= len(s.Args) {
		return 0
	}
	return s.Args[i]
}

// duration returns an argument, which is in milliseconds.
func (s Step) duration(i int) time.Duration { return time.Duration(s.arg(i)) * time.Millisecond }

// run runs the step.
func (s Step) run(w *World) {
	if op := operations[s.Op]; op != nil && op.run != nil {
		op.run(w, s)
	}
}

// Replay runs a schedule that has failed once, as its failure printed it, and fails the test if it fails again.
func Replay(t *testing.T, text string) {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if result := s.Run(t, Options{}); result.Failure() != "" {
		t.Error(result.Failure())
	}
}

// settings are what a run begins with.
type settings struct {
	objects, namespaces int
	watch               objectcache.WatchOptions
	server              apiserver.Options
	restWidgets         bool // by a REST client of their own, which can share streams
	ttl                 time.Duration
	direct              bool          // each Get reads
	blocking            bool          // net/http reads the streams, which cannot be parked
	busy                time.Duration // between the writes of other objects; 0 is none
	latency             time.Duration // of each response
	size                int           // of large objects, in bytes
	transforms          bool          // transform gets each object before it is stored
	transform           func(object metav1.Object)
}

// The bounds that hold without faults: see L1, L2 and S6 in the documentation of package history.
const (
	freshBound    = 15 * time.Second // without latency: see settings.freshBound
	recheckBound  = 20 * time.Minute // the same of an immutable object that is not watched
	releasedBound = time.Second
	attemptBound  = 5 * time.Second
)

func (s Schedule) settings() settings {
	all := settings{objects: 8, namespaces: 2, size: 20 << 10}
	for _, step := range s {
		if op := operations[step.Op]; op != nil && op.set != nil {
			op.set(&all, step)
		}
	}
	return all
}

// avoidsServers reports whether all objects are read by streams that avoid a server that does not answer.
func (s *settings) avoidsServers() bool {
	return !s.blocking && !s.server.DisableWatchList && !s.direct && s.ttl == 0
}

// freshBound returns how old a state may be. A polled object is read within 15 s, by an attempt of three requests at
// most, of which the last one may have begun just before a write.
func (s *settings) freshBound() time.Duration { return freshBound + 4*s.latency }

// attemptBound returns how soon each object makes its first attempt. Of many that come at once, a few do so at first,
// and twice as many after each round trip. Each connection may have few streams.
func (s *settings) attemptBound() time.Duration {
	if s.objects <= mostChecked {
		return attemptBound
	}
	bound := attemptBound + 24*s.latency
	if streams := s.server.MaxStreamsPerConnection; streams > 0 {
		bound += time.Duration(s.objects/streams) * 10 * time.Millisecond
	}
	return bound
}

const (
	// silenceChecks is how many silent streams are compared with a list at a time. net/http may dial for each list.
	silenceChecks = 32
	// streamsPerConnection is how many streams the server allows on a connection by default.
	streamsPerConnection = 100
)

// limits returns those that are checked of the history. An attempt that a Get waits for follows the last one after
// 1.1 s at the earliest, the first ones sooner, and may send three requests: a WatchList, a list and a GET. All of them
// may fail. GETs may be sent beside them. Where one of three servers hangs up, and others cut connections, 26 dials in
// ten seconds were seen.
func (s *settings) limits() history.Limits {
	limits := history.Limits{
		Fresh: s.freshBound(), ImmutableFresh: recheckBound + s.freshBound(), Attempt: s.attemptBound(),
		Released: releasedBound, Streams: 2,
		ObjectRequests: 40, ObjectFailures: 40, OutageFailures: 60, OutageDials: 30,
		Forgets: s.watch.IdleTimeout > 0 || s.watch.MaxStaleness > 0 || s.ttl > 0,
	}
	if s.direct { // nothing is kept, so a reference changes nothing, and a Get may fail
		return history.Limits{Fresh: s.freshBound(), ImmutableFresh: s.freshBound(), Forgets: true}
	}
	if s.ttl > 0 { // a Get reads, when the TTL is over
		limits.Fresh += s.ttl
		limits.Attempt = 0
	}
	if !s.restWidgets && s.objects <= mostChecked {
		limits.OutageFailures += 20 // client-go's dynamic client repeats throttled requests by itself
	}
	limits.PartialFailures, limits.PartialDials = limits.OutageFailures, limits.OutageDials
	if s.objects > mostChecked {
		if s.blocking {
			limits.OutageDials += 50 // net/http dials for each request, and the Gate lets 50 begin until it knows of the outage
		}
		if s.server.MaxStreamsPerConnection > 0 {
			limits.OutageDials += 10 // some of many connections are found dead later than others
		}
		limits.PartialFailures = 250 // 20 a second of failing members, and others
		limits.PartialDials += silenceChecks + s.objects/cmp.Or(s.server.MaxStreamsPerConnection, streamsPerConnection)
	}
	if s.watch.WatchImmutable && s.ttl == 0 {
		limits.ImmutableFresh = limits.Fresh
	}
	return limits
}
