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

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// A stream that the first rollback has kept, because it was below it, sees later versions, and then a second rollback.
// That is proved to others: a stream at a version beyond it ends at once.
func TestSecondRollbackIsProved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		kept := newStream(state(secret("40"), "50")...)
		start(t, watching(kept.answer, opens(state(secret("40"), "70")...)), reflector.Options{Gate: gate})
		first := start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("40"), "60")...)), reflector.Options{Gate: gate})
		first.Refresh()
		after(10 * time.Second)
		if got := first.Status().ResourceVersion; got != "60" {
			t.Fatalf("the first rollback: got version %s, want 60", got)
		}
		kept.events <- bookmark("80", false)
		silent := start(t, watching(opens(state(secret("75"), "80")...), opens(state(secret("40"), "70")...)), reflector.Options{Gate: gate})
		after(10 * time.Second)
		kept.finish(io.EOF) // the server is restored to 70; the stream of the other one is kept, and silent
		after(10 * time.Second)
		if got := silent.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("10 s after the second rollback was read: got version %s, want 40", got)
		}
	})
}

// A reflector that is refused during two rollbacks proves the second one: it reads a version below that of the first.
func TestRollbackBelowTheFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		var granted atomic.Bool
		stream := newStream(state(secret("90"), "100")...)
		asked := 0
		late := start(t, &fakeSource{onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			if asked++; asked == 1 {
				return stream, nil
			} else if !granted.Load() {
				return nil, forbidden()
			}
			return opens(state(secret("40"), "45")...)()
		}, onList: func(metav1.ListOptions) (runtime.Object, error) { return nil, forbidden() }}, reflector.Options{Gate: gate})
		stream.finish(io.EOF)
		after(time.Second)
		silent := start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("60"), "65")...), opens(state(secret("40"), "45")...)), reflector.Options{Gate: gate})
		silent.Refresh()
		after(10 * time.Second)
		if got := silent.slot.Load().ResourceVersion; got != "60" {
			t.Fatalf("the first rollback: got version %s, want 60", got)
		}
		granted.Store(true) // the server is restored to 45; the stream of the other one is kept, and silent
		after(30 * time.Second)
		if got := late.slot.Load().ResourceVersion; got != "40" {
			t.Fatalf("the second rollback: got version %s, want 40", got)
		}
		if got := silent.slot.Load().ResourceVersion; got != "40" {
			t.Errorf("after the second rollback was read: got version %s, want 40", got)
		}
	})
}

// Functions work with events of before the rollback when it is proved. They return one after the other: each
// is of the same rollback, and a reflector that has read after it is not made to read again and again.
func TestEventsOfBeforeARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frees := map[int]chan struct{}{}
		restoreBeside(t, func(i int) reflector.Options {
			free := make(chan struct{})
			frees[i] = free
			return reflector.Options{Transform: transforming(func(version string) error {
				if version == "99999" {
					<-free
				}
				return nil
			})}
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

// As above, without Transform: another API server of the same cluster, whose watch cache is of before the restore,
// sends its bookmark to one quiet stream after the other, and then ends it.
func TestServerThatLagsAfterARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restoreBeside(t, func(int) reflector.Options { return reflector.Options{} }, func(i int, stream *fakeStream) {
			if i < 0 {
				stream.events <- bookmark("99999", false)
				synctest.Wait()
				stream.finish(io.EOF)
			}
		})
	})
}

// restoreBeside runs 20 reflectors at version 50, and one that proves a restore from 101 to 60. That one is busy:
// its stream brings the newest version each 10 ms. late makes reflector i see version 99999, of before the restore.
func restoreBeside(t *testing.T, transform func(i int) reflector.Options, late func(i int, stream *fakeStream)) {
	const n = 20
	gate := reflector.NewGate(reflector.GateOptions{})
	server, now := &restoredServer{}, time.Now()
	server.began.Store(&now)
	var streams []*fakeStream
	var rigs []*rig
	for i := range n {
		stream := newStream(state(secret("40"), "50")...)
		options := transform(i)
		options.Gate = gate
		streams = append(streams, stream)
		rigs = append(rigs, start(t, watching(stream.answer, server.answer), options))
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
	}), reflector.Options{Gate: gate})
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
