// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// opened is how opens at one moment went.
type opened struct {
	mu        sync.Mutex
	well      []time.Duration // how long each took
	throttled int
	lost      int
	after     int // the longest Retry-After
}

// openAll opens so many streams at once, with one hand.
func openAll(t *testing.T, s *server, n int, hand []int, result *opened) *sync.WaitGroup {
	var all sync.WaitGroup
	began, life := time.Now(), s.life()
	for range n {
		all.Go(func() {
			err := s.open(t.Context(), life, hand)
			result.mu.Lock()
			defer result.mu.Unlock()
			switch seconds, asked := apierrors.SuggestsClientDelay(err); {
			case err == nil:
				result.well = append(result.well, time.Since(began))
			case apierrors.IsTooManyRequests(err) && asked:
				result.throttled++
				result.after = max(result.after, seconds)
			case errors.Is(err, io.ErrUnexpectedEOF):
				result.lost++
			default:
				t.Errorf("open: got %v, want a 429 or a lost connection", err)
			}
		})
	}
	return &all
}

// tiny opens ten streams a second, one at a time, and four may wait.
var tiny = ServerOptions{OpensPerSecond: 10, Seats: 1, Queues: 4, HandSize: 2, QueueLength: 2}

func TestServerBounds(t *testing.T) {
	tests := map[string]struct {
		opens           int
		well, throttled int
		most            int
		last            time.Duration
	}{
		"one":           {1, 1, 0, 1, 100 * time.Millisecond},
		"as many fit":   {5, 5, 0, 5, 500 * time.Millisecond},
		"too many":      {9, 5, 4, 5, 500 * time.Millisecond},
		"far too many":  {99, 5, 94, 5, 500 * time.Millisecond},
		"nobody at all": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, result := newServer(tiny), &opened{}
				openAll(t, s, test.opens, []int{0, 1}, result).Wait()
				if len(result.well) != test.well || result.throttled != test.throttled {
					t.Errorf("got %d open and %d throttled, want %d and %d", len(result.well), result.throttled, test.well, test.throttled)
				}
				var last time.Duration
				for _, took := range result.well {
					last = max(last, took)
				}
				if last != test.last {
					t.Errorf("the last opened after %s, want %s", last, test.last)
				}
				if m := s.take(); m.most != test.most || largest(m.arrived) != test.opens {
					t.Errorf("got %d in it at once and %d a second, want %d and %d", m.most, largest(m.arrived), test.most, test.opens)
				}
			})
		})
	}
}

// TestServerIsFair: a client with a hand of its own is not behind the one that
// came before with all it has.
func TestServerIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, greedy, modest := newServer(tiny), &opened{}, &opened{}
		first := openAll(t, s, 50, []int{0, 1}, greedy)
		synctest.Wait()
		openAll(t, s, 1, []int{2, 3}, modest).Wait()
		first.Wait()
		if len(modest.well) != 1 || modest.well[0] > 400*time.Millisecond {
			t.Errorf("got %v, want one open before the greedy one's last", modest.well)
		}
	})
}

func TestServerGivesUpWhoWaitsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tiny
		slow.OpensPerSecond, slow.Seats = 1, 1
		slow.QueueLength = 20
		s, result := newServer(slow), &opened{}
		openAll(t, s, 20, []int{0, 1}, result).Wait()
		if len(result.well) < 14 || result.throttled == 0 || len(result.well)+result.throttled != 20 {
			t.Errorf("got %d open and %d throttled, want what a server opens in 15 s, and the others throttled", len(result.well), result.throttled)
		}
		again := &opened{}
		openAll(t, s, 1, []int{0, 1}, again).Wait()
		if len(again.well) != 1 {
			t.Errorf("got %+v, want those who gave up to leave a place", again)
		}
	})
}

func TestServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, result := newServer(tiny), &opened{}
		all := openAll(t, s, 5, []int{0, 1}, result)
		after(250 * time.Millisecond)
		s.stop()
		all.Wait()
		if len(result.well) != 2 || result.lost != 3 {
			t.Errorf("got %d open and %d lost, want 2 and 3", len(result.well), result.lost)
		}
		if s.life() != nil {
			t.Error("a server that is away has a life")
		}
		s.start(time.Second)
		unready := &opened{}
		openAll(t, s, 1, []int{0, 1}, unready).Wait()
		if unready.throttled != 1 || unready.after != 1 {
			t.Errorf("got %+v, want a 429 for a second while the cache is not ready", unready)
		}
		after(time.Second)
		ready := &opened{}
		openAll(t, s, 5, []int{0, 1}, ready).Wait()
		if len(ready.well) != 5 {
			t.Errorf("got %+v, want 5 open: all seats and queues are new", ready)
		}
	})
}

func TestServerOptionsTimes(t *testing.T) {
	tests := map[string]struct {
		times float64
		want  ServerOptions
	}{
		"as it is":        {1, ServerOptions{2400, 74, 64, 6, 50, 3 * time.Second}},
		"twice":           {2, ServerOptions{4800, 148, 64, 6, 100, 3 * time.Second}},
		"a twentieth":     {0.05, ServerOptions{120, 4, 16, 6, 10, 3 * time.Second}},
		"next to none":    {0.0001, ServerOptions{1, 1, 16, 6, 1, 3 * time.Second}},
		"a two-hundredth": {0.005, ServerOptions{12, 1, 16, 6, 1, 3 * time.Second}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Server2Cores.times(test.times); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
