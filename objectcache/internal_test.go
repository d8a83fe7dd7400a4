// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

var testKey = types.NamespacedName{Namespace: "default", Name: "tls"}

// newTestStore returns a store whose streams end at once: its context has ended.
func newTestStore(t testing.TB, options WatchOptions) *WatchStore[*corev1.Secret] {
	t.Helper()
	s, err := NewWatchStore(resource.Secrets(clients.Nowhere()), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = ctx
	return s
}

// waitForBackground waits for what the store does in the background, but not a minute for the timer of back-offs.
func waitForBackground(s *WatchStore[*corev1.Secret]) {
	s.mu.Lock()
	s.stopTimerLocked(s.backoffs.timer)
	s.backoffs = backoffs{}
	s.mu.Unlock()
	s.background.Wait()
}

func testSecret(version string, immutable bool) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testKey.Namespace, Name: testKey.Name, UID: "u", ResourceVersion: version},
		Immutable:  &immutable,
	}
}

// A late call of changed, with a state from before the object was immutable,
// opened the stream again that had ended.
func TestIssue8LateChangeDoesNotRestart(t *testing.T) {
	for range 50 {
		s := newTestStore(t, WatchOptions{ImmutableRecheck: -1})
		s.AddReference(testKey.Namespace, testKey.Name, "pod")
		e := s.entry(testKey)
		w := e.watch.Load()
		_ = w.Replace([]any{testSecret("5", false)}, "5")
		s.mu.Lock()
		e.readFor = 1
		var late sync.WaitGroup
		for range 4 {
			late.Go(w.ReflectorChanged)
		}
		for range 100 {
			runtime.Gosched() // until all wait for the lock
		}
		w.eventLocked(testSecret("6", true), true)
		s.unwatchLocked(e, w, engine.Immutable)
		s.mu.Unlock()
		late.Wait()
		if w.upkeep != engine.ByNone {
			t.Fatal("an immutable object is read again")
		}
		s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
		waitForBackground(s)
	}
}

// An event that came while the stream ended makes the object followed again, once.
func TestEventWhileTheStreamEnds(t *testing.T) {
	s := newTestStore(t, WatchOptions{ImmutableRecheck: -1})
	s.AddReference(testKey.Namespace, testKey.Name, "pod")
	e := s.entry(testKey)
	w := e.watch.Load()
	_ = w.Replace([]any{testSecret("5", true)}, "5")
	s.mu.Lock()
	e.readFor = 1
	s.unwatchLocked(e, w, engine.Immutable)
	s.mu.Unlock()
	_ = w.Update(testSecret("6", false))
	w.synced = true
	for range 2 {
		w.ReflectorChanged()
		if w.upkeep != engine.ByStream || w.synced {
			t.Errorf("got upkeep %v, read %v, want a stream whose first read is under way", w.upkeep, w.synced)
		}
	}
	s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
	waitForBackground(s)
}

// What a watch that was stopped reports changes nothing: the read of the next one goes on.
func TestLateChangeOfAStoppedWatch(t *testing.T) {
	s := newTestStore(t, WatchOptions{ImmutableRecheck: -1})
	s.AddReference(testKey.Namespace, testKey.Name, "pod")
	e := s.entry(testKey)
	w := e.watch.Load()
	s.mu.Lock()
	s.stopLocked(e, errIdle)
	s.startLocked(e)
	next := e.watch.Load()
	w.upkeep, next.synced = engine.ByNone, true
	s.mu.Unlock()
	_ = w.Replace([]any{testSecret("5", false)}, "5")
	w.ReflectorChanged()
	if !next.synced || e.state().Synced {
		t.Error("the next watch reads again, or has a state of the one before")
	}
	s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
	waitForBackground(s)
}

// A change is stored, and the object is read again before the store has noticed it. Followers
// learn of the change at once, and not with that read, which may fail for long.
func TestChangeBeforeARead(t *testing.T) {
	s := newTestStore(t, WatchOptions{})
	s.AddReference(testKey.Namespace, testKey.Name, "pod")
	queue := workqueue.NewTyped[types.NamespacedName]()
	if !s.addSubscriber(queue) {
		t.Fatal("got no subscription")
	}
	s.mu.Lock()
	for queue.Len() > 0 { // the first state
		key, _ := queue.Get()
		queue.Done(key)
	}
	e := s.entry(testKey)
	e.watch.Load().eventLocked(testSecret("6", false), true)
	s.startLocked(e)
	got := queue.Len()
	s.mu.Unlock()
	if got != 1 {
		t.Errorf("got %d keys to look at, want that of the object", got)
	}
	s.removeSubscriber(queue)
	queue.ShutDown()
	s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
	waitForBackground(s)
}

// A Get without a bound takes no lock, and nor does one of an immutable object.
func TestGetTakesNoLock(t *testing.T) {
	for _, immutable := range []bool{false, true} {
		options := WatchOptions{ImmutableRecheck: -1}
		if immutable {
			options.MaxStaleness = time.Nanosecond
		}
		s := newTestStore(t, options)
		s.AddReference(testKey.Namespace, testKey.Name, "pod")
		e := s.entry(testKey)
		_ = e.watch.Load().Replace([]any{testSecret("5", immutable)}, "5")
		s.mu.Lock()
		e.readFor = 1
		s.publishLocked(e)
		if _, err := s.Get(t.Context(), testKey.Namespace, testKey.Name); err != nil {
			t.Errorf("immutable %v: got %v, want the object", immutable, err)
		}
		s.mu.Unlock()
	}
}

// Between the first read and the moment when the store noticed it, a Get whose context had
// ended returned the state, and a TryGet after it returned ErrNotSynced.
func TestGetOfTheFirstStateBeforeTheStoreNoticesIt(t *testing.T) {
	for _, immutable := range []bool{false, true} {
		s := newTestStore(t, WatchOptions{ImmutableRecheck: -1})
		s.AddReference(testKey.Namespace, testKey.Name, "pod")
		_ = s.entry(testKey).watch.Load().Replace([]any{testSecret("5", immutable)}, "5")
		_, getErr := s.Get(s.ctx, testKey.Namespace, testKey.Name)
		_, tryErr := s.TryGet(testKey.Namespace, testKey.Name)
		if (getErr == nil) != (tryErr == nil) {
			t.Errorf("immutable %v: Get and TryGet: got errors %v and %v, want both or none", immutable, getErr, tryErr)
		}
		waitForBackground(s)
	}
}

// The log has what happened to an object in the order in which it happened, and a logger may
// call the store.
func TestLogOrder(t *testing.T) {
	s := newTestStore(t, WatchOptions{})
	var mu sync.Mutex
	var got []string
	logger := funcr.New(func(_, args string) {
		s.Stats()
		mu.Lock()
		defer mu.Unlock()
		got = append(got, args)
	}, funcr.Options{Verbosity: 4})
	s.ctx = klog.NewContext(s.ctx, logger)
	e := &entry[*corev1.Secret]{key: testKey}
	const lines = 300
	for i := range lines {
		s.mu.Lock()
		s.logLocked(e, strconv.Itoa(i), errIdle)
		s.mu.Unlock()
		if i%7 == 0 {
			runtime.Gosched()
		}
	}
	waitForBackground(s)
	for i, line := range got {
		if !strings.Contains(line, fmt.Sprintf("%q", strconv.Itoa(i))) || !strings.Contains(line, errIdle.Error()) {
			t.Fatalf("line %d: got %s", i, line)
		}
	}
	if len(got) != lines {
		t.Errorf("got %d lines, want %d", len(got), lines)
	}
}

func TestCausesOf(t *testing.T) {
	refused, waiting := errors.New("refused"), errors.New("waiting")
	ago := time.Now().Add(-time.Hour)
	tests := map[string]struct {
		status reflector.Status
		want   []error
		more   int // further causes
	}{
		"nothing":                    {status: reflector.Status{Synced: true}},
		"recovered":                  {status: reflector.Status{Synced: true, LastError: refused}},
		"about to ask":               {want: []error{reflector.ErrNoAnswer}},
		"failing":                    {status: reflector.Status{Failures: 1, LastError: refused}, want: []error{refused}},
		"waiting":                    {status: reflector.Status{Waiting: waiting}, want: []error{waiting}},
		"waiting after a failure":    {status: reflector.Status{Failures: 1, LastError: refused, Waiting: waiting}, want: []error{refused}},
		"unanswered":                 {status: reflector.Status{AskedAt: ago}, more: 1},
		"just asked":                 {status: reflector.Status{AskedAt: time.Now()}, more: 1},
		"unanswered after a failure": {status: reflector.Status{Failures: 1, LastError: refused, AskedAt: ago}, want: []error{refused}},
		"not stored after a failure": {status: reflector.Status{Failures: 1, LastError: refused, AnsweredAt: ago}, want: []error{refused}, more: 1},
		"just asked after a failure": {status: reflector.Status{Failures: 1, LastError: refused, AskedAt: time.Now()}, want: []error{refused}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := causesOf(test.status)
			if len(got) != len(test.want)+test.more {
				t.Fatalf("got %v, want %v and %d more", got, test.want, test.more)
			}
			for i, want := range test.want {
				if !errors.Is(got[i], want) {
					t.Errorf("cause %d: got %v, want %v", i, got[i], want)
				}
			}
		})
	}
}

// Goroutines that run at one time count in different stripes, for the most part.
func TestGoroutinesUseManyStripes(t *testing.T) {
	var counters getCounters
	var running, done sync.WaitGroup
	const goroutines = 4 * stripes
	running.Add(goroutines)
	for range goroutines {
		done.Go(func() {
			running.Done()
			running.Wait() // no stack is used twice
			counters.countAnswer(true)
		})
	}
	done.Wait()
	used := 0
	for i := range counters.stripes {
		if counters.stripes[i].hits.Load() > 0 {
			used++
		}
	}
	if used < stripes/2 || counters.snapshot()[GetHit] != goroutines {
		t.Errorf("got %d hits in %d stripes, want %d in at least %d", counters.snapshot()[GetHit], used, goroutines, stripes/2)
	}
}

// What each object costs is as large as its size class of the allocator allows: one more field costs each object 16 or
// 32 bytes.
func TestSizeOfAnObject(t *testing.T) {
	for name, test := range map[string]struct{ got, want uintptr }{
		"entry":       {unsafe.Sizeof(entry[*corev1.Secret]{}), 288},
		"objectWatch": {unsafe.Sizeof(objectWatch[*corev1.Secret]{}), 64},
		"view":        {unsafe.Sizeof(view[*corev1.Secret]{}), 48},
		"Reflector":   {unsafe.Sizeof(reflector.Reflector{}), 480},
	} {
		if test.got > test.want {
			t.Errorf("%s: got %d bytes, want at most %d", name, test.got, test.want)
		}
	}
}

// KeptBackoffs returns of how many objects without references a store keeps the back-off.
func KeptBackoffs(store Store[*corev1.Secret]) int {
	s := store.(*WatchStore[*corev1.Secret])
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.backoffs.lately) + len(s.backoffs.before)
}
