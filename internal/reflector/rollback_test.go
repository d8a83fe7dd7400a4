// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// A stream that the first rollback has kept, because it was below it, sees later versions, and then a second rollback.
// That is proved to others: a stream at a version beyond it ends at once.
func TestSecondRollbackIsProved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		kept := newStream(state(secret("40"), "50")...)
		start(t, watching(kept.answer, opens(state(secret("40"), "70")...)), options)
		first := start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("40"), "60")...)), options)
		first.Refresh()
		after(10 * time.Second)
		if got := first.Status().ResourceVersion; got != "60" {
			t.Fatalf("the first rollback: got version %s, want 60", got)
		}
		kept.events <- bookmark("80", false)
		silent := start(t, watching(opens(state(secret("75"), "80")...), opens(state(secret("40"), "70")...)), options)
		after(10 * time.Second)
		kept.finish(io.EOF) // the server is restored to 70; the stream of the other one is kept, and silent
		after(10 * time.Second)
		if got := silent.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("10 s after the second rollback was read: got version %s, want 40", got)
		}
	})
}

// A reflector that is refused during two rollbacks proves the second one: it reads a version below what the first one
// has restored, or below what others have read since.
func TestRollbackBelowAnother(t *testing.T) {
	eachCase(t, map[string]struct{ others, since, second string }{
		"below what was restored":           {"configmaps", "65", "45"},
		"below what others have read since": {"secrets", "80", "70"},
	}, func(t *testing.T, test struct{ others, since, second string }) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: test.others}
		var granted atomic.Bool
		late := start(t, refusedAfter(io.EOF, &granted, state(secret("90"), "100"), state(secret("40"), test.second)), reflector.Options{Gate: options.Gate, Resource: "secrets"})
		after(time.Second)
		first := start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("40"), "60")...)), options)
		first.Refresh()
		after(10 * time.Second)
		if got := first.slot.Load().ResourceVersion; got != "40" {
			t.Fatalf("the first rollback: got version %s, want 40", got)
		}
		silent := start(t, watching(opens(state(secret("62"), test.since)...), opens(state(secret("40"), test.second)...)), options)
		after(10 * time.Second)
		granted.Store(true) // the server is restored again; the stream of the other one is kept, and silent
		after(30 * time.Second)
		if got := late.slot.Load().ResourceVersion; got != "40" {
			t.Fatalf("the second rollback: got version %s, want 40", got)
		}
		if got := silent.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("after the second rollback was read: got version %s, want 40", got)
		}
	})
}

// refusedAfter is a source that answers with a state and ends the stream with an error. After that it refuses all
// requests until it is granted, and then has another state.
func refusedAfter(end error, granted *atomic.Bool, first, second []watch.Event) *fakeSource {
	asked := 0
	return &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
		switch asked++; {
		case asked == 1:
			return breaks(end, first...)()
		case !granted.Load():
			return nil, forbidden()
		}
		return opens(second...)()
	}, onList: func(metav1.ListOptions) (runtime.Object, error) { return nil, forbidden() }}
}

// One etcd is restored. Versions of another etcd, which has a kind of its own, are higher: they make no reflector prove
// another restore.
func TestRestoreOfOneOfTwoEtcds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		version := 1_000_000
		other := start(t, &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			version++
			return opens(state(secret("900000"), strconv.Itoa(version))...)()
		}}, reflector.Options{Gate: gate, Resource: "events"})
		seeRestore(t, reflector.Options{Gate: gate, Resource: "secrets"}, other, "1000", "500", other.Refresh)
	})
}

// One etcd is restored, and one of two API servers is not restarted. Its watch cache is of before the restore, and it
// answers consistent reads from that: etcd's version is lower. It makes no reflector prove another restore.
func TestRestoreBesideAServerThatIsAhead(t *testing.T) {
	eachCase(t, map[string]string{"of what was seen": "100001", "of etcd alone": "99999"}, func(t *testing.T, ahead string) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		other := start(t, &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			return opens(state(secret("90"), ahead)...)()
		}}, options)
		seeRestore(t, options, other, "100000", "60", func() {})
	})
}

// seeRestore runs 20 reflectors that see a restore one after the other, from the version seen to the version restored.
// After the first one it calls then. It checks that all this costs the reflector other, which does not see the restore,
// two reads at most.
func seeRestore(t *testing.T, options reflector.Options, other *rig, seen, restored string, then func()) {
	t.Helper()
	var granted [20]atomic.Bool
	var rigs []*rig
	for i := range granted {
		source := refusedAfter(io.EOF, &granted[i], state(secret("50"), seen), state(secret("40"), restored))
		rigs = append(rigs, start(t, source, options))
	}
	after(10 * time.Second)
	before := other.source.count("WatchList")
	for i := range granted {
		granted[i].Store(true)
		after(30 * time.Second)
		if i == 0 {
			then()
		}
	}
	for i, r := range rigs {
		if got := r.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("reflector %d: got version %s, want 40", i, got)
		}
	}
	if got := other.source.count("WatchList") - before; got > 2 {
		t.Errorf("one restore: got %d reads of another reflector, want 2 at most", got)
	}
}

// Stores work with events of before the rollback when it is proved. They return one after the other: each
// is of the same rollback, and a reflector that has read after it is not made to read again and again.
func TestEventsOfBeforeARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frees := map[int]chan struct{}{}
		restoreBeside(t, func(i int) func(string) error {
			free := make(chan struct{})
			frees[i] = free
			return blockingAt("99999", free)
		}, func(i int, stream *fakeStream) {
			if i >= 0 {
				stream.events <- event(watch.Modified, secret("99999"))
				stream.finish(io.EOF) // the server is restarted; the parked stream has the event
				return
			}
			close(frees[-1-i])
		})
	})
}

// As above, with stores that do not block: another API server of the same cluster, whose watch cache is of before the
// restore, sends its bookmark to one quiet stream after the other, and then ends it.
func TestServerThatLagsAfterARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restoreBeside(t, func(int) func(string) error { return blockingAt("", nil) }, func(i int, stream *fakeStream) {
			if i < 0 {
				stream.events <- bookmark("99999", false)
				synctest.Wait()
				stream.finish(io.EOF)
			}
		})
	})
}

// restoreBeside runs 20 reflectors at version 50, and one that proves a restore from 101 to 60. That one is busy:
// its stream brings the newest version each 10 ms. late makes reflector i see version 99999, of before the restore. The
// store of reflector i calls what store returns.
func restoreBeside(t *testing.T, store func(i int) func(version string) error, late func(i int, stream *fakeStream)) {
	const n = 20
	gate := reflector.NewGate(reflector.GateOptions{})
	server, now := &restoredServer{}, time.Now()
	server.began.Store(&now)
	var streams []*fakeStream
	var rigs []*rig
	for i := range n {
		stream := newStream(state(secret("40"), "50")...)
		streams = append(streams, stream)
		rigs = append(rigs, startCalling(t, watching(stream.answer, server.answer), reflector.Options{Gate: gate, Resource: "secrets"}, store(i)))
	}
	for i := range n {
		late(i, streams[i])
	}
	synctest.Wait()
	restored := time.Now()
	server.began.Store(&restored)
	var newest atomic.Pointer[fakeStream]
	busy := start(t, watching(breaks(io.EOF, state(secret("90"), "100000")...), func() (listwatch.Stream, error) {
		s, err := server.answer()
		newest.Store(s.(*fakeStream))
		return s, err
	}), reflector.Options{Gate: gate, Resource: "secrets"})
	busy.Refresh()
	pass := func(d time.Duration) {
		for until := time.Now().Add(d); time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
			if current := newest.Load(); current != nil {
				select {
				case <-current.closed:
				default:
					current.events <- bookmark(server.version(), false)
				}
			}
			synctest.Wait()
		}
	}
	pass(10 * time.Second)
	before := len(busy.source.asked())
	for i := range n {
		late(-1-i, streams[i])
		pass(5 * time.Second)
	}
	pass(20 * time.Second)
	if got := len(busy.source.asked()) - before; got > 2 {
		t.Errorf("one restore: a reflector that had read after it has read %d times more, want 2 at most", got)
	}
	for i, r := range rigs {
		if got := r.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("reflector %d: got version %s, want 40", i, got)
		}
	}
}

// restoredServer is a server that was restored to version 60 and goes on from there, a version each 10 ms: a consistent
// read has the newest version when it is asked, and its answer takes 20 ms.
type restoredServer struct{ began atomic.Pointer[time.Time] }

func (s *restoredServer) version() string {
	return strconv.Itoa(60 + int(time.Since(*s.began.Load())/(10*time.Millisecond)))
}

func (s *restoredServer) answer() (listwatch.Stream, error) {
	version := s.version()
	time.Sleep(20 * time.Millisecond)
	return newStream(state(secret("40"), version)...), nil
}
