// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// An API server is not restarted after a restore of etcd, and has versions of before it. A reflector that reads from it
// and from another by turns makes others read once in 5 minutes at most.
func TestProofsOfARestoreAreRare(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		ahead := false
		turns := start(t, &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			if ahead = !ahead; ahead {
				return opens(state(secret("90"), "100")...)()
			}
			return opens(state(secret("40"), "60")...)()
		}}, options)
		other := start(t, &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			return opens(state(secret("30"), "50")...)()
		}, onList: listOf(state(secret("30"), "50"))}, options)
		const minutes = 30
		for range minutes * 6 {
			turns.Refresh()
			after(10 * time.Second)
		}
		if got := turns.source.count("WatchList"); got < minutes*3 {
			t.Fatalf("got %d reads by turns, want a restore seen each 20 s", got)
		}
		if got := other.source.count("WatchList"); got < minutes/5 || got > 2+minutes/5 {
			t.Errorf("got %d reads of another reflector in %d minutes, want one each 5 minutes", got, minutes)
		}
	})
}

// listOf returns a list of what the initial events of a WatchList of an object bring.
func listOf(events []watch.Event) func(metav1.ListOptions) (runtime.Object, error) {
	object, end := events[0].Object.(*corev1.Secret), events[1].Object.(*corev1.Secret)
	return func(metav1.ListOptions) (runtime.Object, error) { return list(end.ResourceVersion, object), nil }
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
	}, onList: func(options metav1.ListOptions) (runtime.Object, error) {
		if !granted.Load() {
			return nil, forbidden()
		}
		return listOf(second)(options)
	}}
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
		}, onList: func(metav1.ListOptions) (runtime.Object, error) {
			return list(strconv.Itoa(version), secret("900000")), nil
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
		}, onList: listOf(state(secret("90"), ahead))}, options)
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
