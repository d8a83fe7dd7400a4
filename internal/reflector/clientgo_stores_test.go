// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/apiserver"
)

// step is a part of the life of some ConfigMaps. It says what reaches a store, which is
// events and complete reads, and what the store holds afterwards.
type step struct {
	name   string
	do     func(*site)
	events []string // like "Added a=1"
	reads  []read
	holds  string // like "a=1 b=1"
}

// read is a complete read: the state that it brings, and the objects whose deletion
// nothing else shows.
type read struct{ state, gone string }

// life is what happens to the ConfigMaps a to f.
var life = []step{
	{"start", func(s *site) {}, nil, []read{{"a=1 b=1", ""}}, "a=1 b=1"},
	{"create", func(s *site) { s.put("c=1") }, []string{"Added c=1"}, nil, "a=1 b=1 c=1"},
	{"update", func(s *site) { s.put("a=2") }, []string{"Updated a=2"}, nil, "a=2 b=1 c=1"},
	{"delete", func(s *site) { s.remove("b") }, []string{"Deleted b=1"}, nil, "a=2 c=1"},
	{"recreate", func(s *site) { s.remove("c"); s.put("c=2") }, []string{"Added c=2", "Deleted c=1"}, nil, "a=2 c=2"},
	{"break the stream", func(s *site) { s.server.CloseStreams(nil) }, nil, []read{{"a=2 c=2", ""}}, "a=2 c=2"},
	{"change without a stream", func(s *site) {
		s.away(func() { s.put("a=3", "d=1"); s.remove("c") })
	}, nil, []read{{"a=3 d=1", "c=2"}}, "a=3 d=1"},
	{"recreate without a stream", func(s *site) {
		s.away(func() { s.remove("d"); s.put("d=2") })
	}, nil, []read{{"a=3 d=2", ""}}, "a=3 d=2"},
	{"compact", func(s *site) {
		s.away(func() { s.remove("a"); s.put("e=1"); s.server.Compact() })
	}, nil, []read{{"d=2 e=1", "a=3"}}, "d=2 e=1"},
	{"change what a restore undoes", func(s *site) {
		s.saved = s.server.Snapshot()
		s.put("d=3", "f=1")
		s.remove("e")
	}, []string{"Added f=1", "Deleted e=1", "Updated d=3"}, nil, "d=3 f=1"},
	{"restore etcd", func(s *site) { s.server.Restore(s.saved) }, nil, []read{{"d=2 e=1", "f=1"}}, "d=2 e=1"},
}

// compactedList is a step for a server without WatchList: a list is compacted before the
// watch that follows it, which gets 410.
var compactedList = step{"compact a list", func(s *site) {
	s.away(func() {})
	s.server.Intercept(func(_ context.Context, r apiserver.Request) *metav1.Status {
		if r.Verb == "watch" && r.Query.Get("sendInitialEvents") == "" {
			s.server.Intercept(nil)
			s.put("g=1")
			s.remove("e")
			s.server.Compact()
		}
		return nil
	})
}, nil, []read{{"d=2 e=1", ""}, {"d=2 g=1", "e=1"}}, "d=2 g=1"}

// live runs a reflector that feeds a store through the life, on a server with WatchList
// and on one without. It calls check after each step.
func live(t *testing.T, newStore func(*testing.T) (store reflector.Store, check func(*testing.T, step))) {
	servers := map[string]bool{"WatchList": false, "list": true}
	eachCase(t, servers, func(t *testing.T, listOnly bool) {
		s := newSite(t, apiserver.Options{DisableWatchList: listOnly})
		s.put("a=1", "b=1")
		store, check := newStore(t)
		r := startWith(t, s.source(), store, reflector.Options{})
		steps := slices.Clone(life)
		if listOnly {
			steps = append(steps, compactedList)
		}
		for _, step := range steps {
			step.do(s)
			after(soonEnough)
			check(t, step)
		}
		if got := r.Status(); !got.Streaming || got.Malformed != 0 {
			t.Errorf("status: got %+v, want an open stream and nothing malformed", got)
		}
	})
}

func checkHeld(t *testing.T, step step, objects []any) {
	t.Helper()
	if got := textsOf(objects); got != step.holds {
		t.Errorf("%s: got objects %q, want %q", step.name, got, step.holds)
	}
}

func checkPopped(t *testing.T, step step, got, want []string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got popped %q, want %q", step.name, got, want)
	}
}

// Each store of client-go that is no queue equals the server after each step.
func TestClientGoStores(t *testing.T) {
	stores := map[string]func(t *testing.T) (store reflector.Store, list func() []any){
		"Store": func(*testing.T) (reflector.Store, func() []any) {
			store := newStore()
			return store, store.List
		},
		"Indexer": func(t *testing.T) (reflector.Store, func() []any) {
			store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, byValue)
			return store, func() []any { return indexed(t, store) }
		},
		"ThreadSafeStore": func(*testing.T) (reflector.Store, func() []any) {
			store := keyed{toolscache.NewThreadSafeStore(byValue, toolscache.Indices{})}
			return store, store.List
		},
		"UndeltaStore": func(*testing.T) (reflector.Store, func() []any) {
			var pushed []any
			store := toolscache.NewUndeltaStore(func(all []any) { pushed = all }, toolscache.MetaNamespaceKeyFunc)
			return store, func() []any { return pushed }
		},
		"TTLStore": func(*testing.T) (reflector.Store, func() []any) {
			store := toolscache.NewTTLStore(toolscache.MetaNamespaceKeyFunc, 24*time.Hour)
			return store, store.List
		},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		for name, newStore := range stores {
			t.Run(name, func(t *testing.T) {
				live(t, func(t *testing.T) (reflector.Store, func(*testing.T, step)) {
					store, list := newStore(t)
					return store, func(t *testing.T, s step) { checkHeld(t, s, list()) }
				})
			})
		}
	})
}

// Each queue of client-go delivers each change once, and its consumer equals the server
// after each step. A FIFO delivers no deletions.
func TestClientGoQueues(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		for name, queue := range queues {
			t.Run(name, func(t *testing.T) {
				live(t, func(t *testing.T) (reflector.Store, func(*testing.T, step)) {
					c := newConsumer()
					q := queue.make(c.known)
					c.consume(t, q)
					return q, func(t *testing.T, s step) {
						checkPopped(t, s, c.take(), queue.delivers(s))
						if name != "FIFO" {
							checkHeld(t, s, c.known.List())
						}
					}
				})
			})
		}
	})
}

// A store that is a ReflectorBookmarkStore gets the bookmarks of a stream after its
// state, and the version of the state by Replace.
func TestBookmarksReachAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, c := newSite(t, apiserver.Options{BookmarkInterval: time.Minute}), newConsumer()
		s.put("a=1")
		queue := toolscache.NewRealFIFOWithOptions(toolscache.RealFIFOOptions{AtomicEvents: true, EmitDeltaTypeBookmark: true})
		c.consume(t, queue)
		startWith(t, s.source(), queue, reflector.Options{})
		after(30 * time.Second)
		checkPopped(t, step{name: "before a bookmark"}, c.take(), []string{"ReplacedAll a=1"})
		// An object of another kind: no event of the stream has its version.
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		if _, err := s.server.Client().CoreV1().Secrets(metav1.NamespaceDefault).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		version := s.server.ResourceVersion()
		checkPopped(t, step{name: "after a bookmark"}, c.take(), []string{"Bookmark " + version})
		if got := c.known.LastStoreSyncResourceVersion(); got != version {
			t.Errorf("version of the indexer: got %q, want %q", got, version)
		}
	})
}

// queueCase is one of client-go's queues, and what it delivers in a step.
type queueCase struct {
	make     func(known toolscache.Indexer) toolscache.Queue
	delivers func(step) []string
}

var queues = map[string]queueCase{
	"FIFO": {func(toolscache.Indexer) toolscache.Queue {
		return toolscache.NewFIFO(toolscache.MetaNamespaceKeyFunc)
	}, objectsOf},
	"DeltaFIFO": {func(known toolscache.Indexer) toolscache.Queue {
		return toolscache.NewDeltaFIFOWithOptions(toolscache.DeltaFIFOOptions{KnownObjects: known, EmitDeltaTypeReplaced: true})
	}, deltasOf(toolscache.Replaced)},
	"DeltaFIFO without Replaced": {func(known toolscache.Indexer) toolscache.Queue {
		return toolscache.NewDeltaFIFOWithOptions(toolscache.DeltaFIFOOptions{KnownObjects: known})
	}, deltasOf(toolscache.Sync)},
	"RealFIFO": {func(known toolscache.Indexer) toolscache.Queue {
		return toolscache.NewRealFIFOWithOptions(toolscache.RealFIFOOptions{KnownObjects: known})
	}, deltasOf(toolscache.Replaced)},
	"RealFIFO with AtomicEvents": {func(toolscache.Indexer) toolscache.Queue {
		return toolscache.NewRealFIFOWithOptions(toolscache.RealFIFOOptions{AtomicEvents: true})
	}, atomicDeltasOf},
	"RealFIFO with AtomicEvents, unlocked": {func(toolscache.Indexer) toolscache.Queue {
		return toolscache.NewRealFIFOWithOptions(toolscache.RealFIFOOptions{AtomicEvents: true, UnlockWhileProcessing: true})
	}, atomicDeltasOf},
}

// deltasOf returns what a queue delivers that has a delta of this type for each object of
// a read.
func deltasOf(inRead toolscache.DeltaType) func(step) []string {
	return func(s step) []string {
		all := slices.Clone(s.events)
		for _, r := range s.reads {
			for _, object := range strings.Fields(r.state) {
				all = append(all, string(inRead)+" "+object)
			}
			for _, object := range strings.Fields(r.gone) {
				all = append(all, "Deleted "+object+" (final state unknown)")
			}
		}
		return all
	}
}

// atomicDeltasOf returns what a RealFIFO with AtomicEvents delivers: its consumer finds
// out what a read has deleted.
func atomicDeltasOf(s step) []string {
	all := slices.Clone(s.events)
	for _, r := range s.reads {
		all = append(all, "ReplacedAll "+r.state)
	}
	return all
}

// objectsOf returns what a FIFO delivers.
func objectsOf(s step) (all []string) {
	for _, event := range s.events {
		if kind, object, _ := strings.Cut(event, " "); kind != "Deleted" {
			all = append(all, object)
		}
	}
	for _, r := range s.reads {
		all = append(all, strings.Fields(r.state)...)
	}
	return all
}
