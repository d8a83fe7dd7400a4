// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// References are pairs of an owner and an object. Adding one twice is one.
func TestStatsCountReferences(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{},
	} {
		t.Run(name, func(t *testing.T) {
			beforeRun(t, options, func(t *testing.T, r *rig) {
				want := func(when string, objects, references int) {
					t.Helper()
					got := r.Stats()
					if got.Objects != objects || got.References != references {
						t.Errorf("%s: got %d objects and %d references, want %d and %d", when, got.Objects, got.References, objects, references)
					}
				}
				want("at first", 0, 0)
				r.AddReference(namespace, "tls", "one")
				r.AddReference(namespace, "tls", "one")
				r.AddReference(namespace, "tls", "two")
				r.AddReference(namespace, "other", "one")
				want("added", 2, 3)
				r.DeleteReference(namespace, "tls", "one")
				r.DeleteReference(namespace, "tls", "nobody")
				want("one of two deleted", 2, 3)
				r.DeleteReference(namespace, "tls", "one")
				r.DeleteReference(namespace, "tls", "two")
				want("all of tls deleted", 1, 1)
				if got := r.Stats().Resource; got != corev1.SchemeGroupVersion.WithResource("secrets") {
					t.Errorf("resource: got %v, want secrets", got)
				}
			})
		})
	}
}

// countedGet calls f, and returns with which results Gets were counted meanwhile.
func (r *rig) countedGet(f func()) (results []objectcache.GetResult) {
	before := r.Stats().Gets
	f()
	for result, count := range r.Stats().Gets {
		for range count - before[result] {
			results = append(results, result)
		}
	}
	return results
}

// Each Get is counted once, with its result.
func TestStatsCountGets(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{TTL: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				want := func(want objectcache.GetResult, f func()) {
					t.Helper()
					if got := r.countedGet(f); !slices.Equal(got, []objectcache.GetResult{want}) {
						t.Errorf("counted: got %v, want one %s", got, want)
					}
				}
				get := func(name string) func() { return func() { _, _ = r.get(name, time.Second) } }
				tryGet := func(name string) func() { return func() { _, _ = r.TryGet(namespace, name) } }
				r.create("tls")
				want(objectcache.GetNotRegistered, get("tls"))
				want(objectcache.GetNotRegistered, tryGet("tls"))
				release := r.holdBack("watch", "get")
				r.AddReference(namespace, "tls", "pod")
				want(objectcache.GetNotHeld, tryGet("tls"))
				want(objectcache.GetCanceled, get("tls"))
				want(objectcache.GetWaited, func() {
					done := r.async(t.Context(), "tls")
					release()
					<-done
				})
				want(objectcache.GetHit, get("tls"))
				want(objectcache.GetHit, tryGet("tls"))
				r.AddReference(namespace, "absent", "pod")
				want(objectcache.GetNotFound, get("absent"))
				want(objectcache.GetNotFound, get("absent"))
				r.refuse(forbidden())
				r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { return r.down.Load() })
				r.AddReference(namespace, "forbidden", "pod")
				want(objectcache.GetFailed, func() { _, _ = r.get("forbidden", time.Hour) })
				want(objectcache.GetNotFound, get("in valid"))
				want(objectcache.GetInvalid, func() { _, _ = r.Get(nil, namespace, "tls") }) //nolint:staticcheck // that is tested
				want(objectcache.GetInvalid, func() {
					_, _ = r.GetWithOptions(t.Context(), namespace, "tls", objectcache.GetOptions{NotOlderThan: "x"})
				})
				want(objectcache.GetHit, func() {
					_, _ = r.GetWithOptions(t.Context(), namespace, "tls", objectcache.GetOptions{MaxStaleness: time.Hour})
				})
				r.stop()
				want(objectcache.GetInvalid, get("tls"))
			})
		})
	}
}

// A DirectStore counts Gets and reads.
func TestDirectStats(t *testing.T) {
	inBubble(t, objectcache.DirectOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.mustGet("tls")
		_, _ = r.get("absent", time.Second)
		_, _ = r.TryGet(namespace, "tls")
		r.refuse(forbidden())
		_, _ = r.get("tls", time.Second)
		release := r.holdBack("get")
		_, _ = r.get("tls", time.Second)
		release()
		got := r.Stats()
		gets := map[objectcache.GetResult]uint64{
			objectcache.GetWaited: 1, objectcache.GetNotFound: 1, objectcache.GetNotHeld: 1,
			objectcache.GetFailed: 1, objectcache.GetCanceled: 1,
		}
		for result, count := range got.Gets {
			if count != gets[result] {
				t.Errorf("Gets %s: got %d, want %d", result, count, gets[result])
			}
		}
		if got.Reads[reflector.ReadSucceeded] != 2 || got.Reads[reflector.ReadFailed] != 1 || got.Gate != nil {
			t.Errorf("got %+v, want two reads that succeeded, one that failed, and no Gate", got)
		}
	})
}

// A TTLStore counts its reads. Those that nothing waits for any more are canceled.
func TestTTLStatsCountReads(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		want := func(when string, succeeded, failed uint64) {
			t.Helper()
			synctest.Wait()
			want := map[reflector.ReadResult]uint64{reflector.ReadSucceeded: succeeded, reflector.ReadFailed: failed}
			if got := r.Stats().Reads; !maps.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
		}
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		want("no Get", 0, 0)
		r.mustGet("tls")
		r.mustGet("tls")
		want("two Gets", 1, 0)
		r.refuse(forbidden())
		time.Sleep(time.Hour)
		_, _ = r.TryGet(namespace, "tls")
		want("a refusal", 1, 1)
		r.refuse(nil)
		time.Sleep(time.Minute)
		if got := r.Stats().Reads[reflector.ReadSucceeded]; got != 2 {
			t.Errorf("repeated: got %d reads that succeeded, want 2", got)
		}
		r.DeleteReference(namespace, "tls", "pod")
		if got := r.Stats(); got.Reads[reflector.ReadSucceeded] != 2 || got.Objects != 0 {
			t.Errorf("deleted: got %+v, want the reads, and no object", got)
		}
	})
}

// wantOpens checks how many streams were asked for, for each reason; of those not named,
// none.
func (r *rig) wantOpens(when string, open int, want map[reflector.OpenReason]uint64) {
	r.t.Helper()
	synctest.Wait()
	got := r.Stats()
	if got.OpenStreams != open || open != r.server.TotalStreams() {
		r.t.Errorf("%s: got %d open streams, %d on the server, want %d", when, got.OpenStreams, r.server.TotalStreams(), open)
	}
	for reason, count := range got.Opens {
		if count != want[reason] {
			r.t.Errorf("%s: got %d opens for reason %s, want %d", when, count, reason, want[reason])
		}
	}
}

func total(opens map[reflector.OpenReason]uint64) (sum int) {
	for _, count := range opens {
		sum += int(count)
	}
	return sum
}

// Each way of losing a stream has its reason. Totals stay when an object is gone.
func TestStatsCountStreams(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		opens := map[reflector.OpenReason]uint64{}
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		opens[reflector.OpenFirst]++
		r.wantOpens("referenced", 1, opens)
		state := r.server.Snapshot()

		r.server.CloseStreams(nil)
		time.Sleep(time.Second)
		opens[reflector.OpenEnded]++
		r.wantOpens("the stream ended", 1, opens)

		if _, err := r.GetWithOptions(t.Context(), namespace, "tls", objectcache.GetOptions{MaxStaleness: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		opens[reflector.OpenDemanded]++
		r.wantOpens("a newer state was demanded", 1, opens)

		r.refuse(forbidden())
		r.server.CloseStreams(nil)
		time.Sleep(time.Minute)
		opens[reflector.OpenEnded]++
		opens[reflector.OpenFailed] = r.Stats().Opens[reflector.OpenFailed]
		r.wantOpens("refused", 0, opens)
		if got := r.opens("tls"); opens[reflector.OpenFailed] == 0 || got != total(opens) {
			t.Errorf("refused: got %v, want %d opens, as the server saw, and some that failed", opens, got)
		}
		r.refuse(nil)
		time.Sleep(time.Minute)
		opens[reflector.OpenFailed]++
		r.wantOpens("allowed", 1, opens)

		r.update("tls", "two")
		r.server.Restore(state)
		r.server.CloseStreams(nil)
		time.Sleep(time.Minute)
		opens[reflector.OpenEnded]++
		opens[reflector.OpenExpired]++
		r.wantOpens("the server was rolled back", 1, opens)

		r.DeleteReference(namespace, "tls", "pod")
		r.wantOpens("deleted", 0, opens)
	})
}

func TestStatsCountEvents(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		synctest.Wait()
		r.create("tls")
		r.update("tls", "two")
		r.update("tls", "three")
		r.remove("tls")
		events := r.Stats().Events
		if events[watch.Added] != 1 || events[watch.Modified] != 2 || events[watch.Deleted] != 1 || events[watch.Bookmark] != 1 || events[watch.Error] != 0 {
			t.Errorf("got %v, want one added, two modified, one deleted, and a bookmark", events)
		}
		time.Sleep(90 * time.Second)
		if got := r.Stats().Events[watch.Bookmark]; got != 2 {
			t.Errorf("bookmarks after a minute: got %d, want 2", got)
		}
	})
}

// The clock of a first sync begins with the reference, or with Run. Each object counts
// once.
func TestStatsFirstSync(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		want := func(when string, count uint64, sum time.Duration) {
			t.Helper()
			synctest.Wait()
			got := r.Stats().FirstSync
			if got.Count != count || got.Sum.Round(time.Second) != sum {
				t.Errorf("%s: got %d in %v, want %d in %v", when, got.Count, got.Sum, count, sum)
			}
		}
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(time.Hour)
		r.run()
		want("after an hour before Run", 1, 0)
		release := r.holdBack("watch")
		r.AddReference(namespace, "slow", "pod")
		time.Sleep(3 * time.Second)
		want("held back", 1, 0)
		release()
		want("released", 2, 3*time.Second)
		time.Sleep(time.Hour)
		if got := r.phase("tls"); got != objectcache.PhaseIdle {
			t.Fatalf("phase: got %s, want Idle", got)
		}
		r.mustGet("tls")
		want("synced again", 2, 3*time.Second)
	})
}

// Hits of many goroutines are all counted.
func TestStatsCountConcurrentGets(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		const goroutines, each = 16, 1000
		before := r.Stats().Gets[objectcache.GetHit]
		var group sync.WaitGroup
		for range goroutines {
			group.Go(func() {
				for range each {
					_, _ = r.Get(t.Context(), namespace, "tls")
				}
			})
		}
		group.Wait()
		if got := r.Stats().Gets[objectcache.GetHit] - before; got != goroutines*each {
			t.Errorf("hits: got %d, want %d", got, goroutines*each)
		}
	})
}

// filledStats returns stats in which all numbers are n, and all maps have all keys.
func filledStats(n int) objectcache.Stats {
	stats := objectcache.SumStats()
	stats.Objects, stats.References, stats.Absent, stats.OpenStreams = n, n, n, n
	fill(stats.Opens, n)
	fill(stats.Events, n)
	fill(stats.Reads, n)
	fill(stats.Gets, n)
	stats.FirstSync.Count, stats.FirstSync.Sum = uint64(n), time.Duration(n)
	for i := range stats.FirstSync.Cumulative {
		stats.FirstSync.Cumulative[i] = uint64(n)
	}
	return stats
}

func fill[K comparable](counts map[K]uint64, n int) {
	for key := range counts {
		counts[key] = uint64(n)
	}
}

// A sum has all numbers of all stats, and the Resource and the Gate of the first. It
// changes none of them.
func TestSumStats(t *testing.T) {
	first, second := filledStats(1), filledStats(2)
	first.Resource, first.Gate = corev1.SchemeGroupVersion.WithResource("secrets"), objectcache.NewGate(objectcache.GateOptions{})
	for field, value := range reflect.ValueOf(first).Fields() {
		if value.IsZero() {
			t.Fatalf("field %s: it is zero: let filledStats set it", field.Name)
		}
	}
	want := filledStats(3)
	want.Resource, want.Gate = first.Resource, first.Gate
	if got := objectcache.SumStats(first, second); !reflect.DeepEqual(got, want) {
		t.Errorf("sum: got %+v, want %+v", got, want)
	}
	if got := second; !reflect.DeepEqual(got, filledStats(2)) {
		t.Errorf("a summand: got %+v, want it unchanged", got)
	}
}

// Without stats, the sum has the keys of the stats of a store, each with 0.
func TestSumOfNoStats(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		want := r.Stats()
		want.Resource, want.Gate = schema.GroupVersionResource{}, nil
		if got := objectcache.SumStats(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
