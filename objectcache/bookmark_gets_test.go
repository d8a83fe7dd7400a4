// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/test/pushed"
)

// A Get that demands a version returns when a bookmark brings it, whichever of the two comes first. A wake-up that was
// lost would cost 100 ms and another stream.
func TestBookmarkWakesAGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inPushedStore(t, WatchOptions{}, func(s *WatchStore[*corev1.Secret], source *pushed.Server) {
			synctest.Wait()
			random := rand.New(rand.NewPCG(1, 2))
			for range 3000 {
				_, server := source.Versions()
				version, began := strconv.Itoa(server+1), time.Now()
				var gets sync.WaitGroup
				for range 1 + random.IntN(3) {
					gets.Go(func() {
						if _, err := s.GetWithOptions(t.Context(), testKey.Namespace, testKey.Name, GetOptions{NotOlderThan: version}); err != nil {
							t.Error(err)
						}
					})
				}
				for range random.IntN(8) {
					runtime.Gosched()
				}
				source.Bookmark()
				gets.Wait()
				if took := time.Since(began); took > 0 || source.Opens() != 1 {
					t.Errorf("version %s: a Get took %v, and there were %d streams; want no time and one", version, took, source.Opens())
					break
				}
			}
		})
	})
}

// randomGet is one random Get, whose state must not be older than what was there before.
func randomGet(t *testing.T, s *WatchStore[*corev1.Secret], random *rand.Rand, source *pushed.Server, seen *atomic.Int64) {
	before, object := seen.Load(), 0
	options := GetOptions{}
	switch random.IntN(6) {
	case 0:
		options.Live = true
		object, _ = source.Versions()
	case 1, 2:
		secret, server := source.Versions()
		object, options.NotOlderThan = secret, strconv.Itoa(server)
	case 3:
		options.MaxStaleness = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := s.GetWithOptions(ctx, testKey.Namespace, testKey.Name, options)
	if err != nil {
		t.Errorf("%+v: %v", options, err)
		return
	}
	version, _ := strconv.ParseInt(got.ResourceVersion, 10, 64)
	if version < before || version < int64(object) {
		t.Errorf("%+v: got version %d after %d was returned, and the server had %d", options, version, before, object)
	}
	for now := seen.Load(); version > now && !seen.CompareAndSwap(now, version); {
		now = seen.Load()
	}
}

// randomOther is what else happens to a store.
func randomOther(s *WatchStore[*corev1.Secret], random *rand.Rand) {
	owner := types.UID(fmt.Sprint("other-", random.IntN(3)))
	switch random.IntN(6) {
	case 0:
		s.AddReference(testKey.Namespace, testKey.Name, owner)
	case 1:
		s.DeleteReference(testKey.Namespace, testKey.Name, owner)
	case 2:
		s.HasSynced(testKey.Namespace, testKey.Name)
	case 3:
		for range s.Statuses() {
		}
	case 4:
		_, _ = s.TryGet(testKey.Namespace, testKey.Name)
	case 5:
		s.Stats()
	}
}

// Gets of every kind beside events, bookmarks and owners return no state that is older than demanded, or than one that
// was returned before. In the end the newest state is there, and the follower has it.
func TestGetsBesideBookmarksAndEvents(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			inPushedStore(t, WatchOptions{}, func(s *WatchStore[*corev1.Secret], source *pushed.Server) { getsBesideAll(t, s, source, seed) })
		})
	}
}

func getsBesideAll(t *testing.T, s *WatchStore[*corev1.Secret], source *pushed.Server, seed uint64) {
	var seen, followed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var follower, all sync.WaitGroup
	follower.Go(func() {
		for change := range s.Changes(ctx) {
			version, _ := strconv.ParseInt(change.ResourceVersion, 10, 64)
			if version < followed.Load() {
				t.Errorf("Changes: got version %d after %d", version, followed.Load())
			}
			followed.Store(version)
		}
	})
	for i := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, i))
		all.Go(func() {
			for range 60 {
				randomGet(t, s, random, source, &seen)
				randomOther(s, random)
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 9))
	all.Go(func() {
		for range 400 {
			if random.IntN(3) == 0 {
				source.Write()
			} else {
				source.Bookmark()
			}
			if random.IntN(3) == 0 {
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
			}
		}
	})
	all.Wait()
	time.Sleep(time.Minute)
	synctest.Wait()
	got, err := s.TryGet(testKey.Namespace, testKey.Name)
	newest, _ := source.Versions()
	if err != nil || got.ResourceVersion != strconv.Itoa(newest) || followed.Load() != int64(newest) {
		t.Errorf("seed %d: in the end: got %v, %v, and Changes has %d; want version %d", seed, got, err, followed.Load(), newest)
	}
	stop()
	follower.Wait()
}
