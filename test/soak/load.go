// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// churners is how many goroutines change pods, readers how many call Get.
	churners = 4
	readers  = 4
	// getsAtOnce is how many Gets a reader makes every getInterval.
	getsAtOnce  = 20
	getInterval = 10 * time.Millisecond

	// outage is how long connections are refused if the server cannot crash.
	outage = 2 * time.Second
	// retryInterval is the time between two tries of what the run itself waits for.
	retryInterval = 50 * time.Millisecond
)

// pause waits. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// repeat calls f so many times a second until ctx ends or f returns an error. Calls that are late are left out.
func (s *soak) repeat(ctx context.Context, perSecond float64, f func() error) error {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := f(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// read gets random objects until ctx ends. One Get of each turn waits for an object that has not synced.
func (s *soak) read(ctx context.Context, random *rand.Rand) error {
	return s.repeat(ctx, float64(time.Second/getInterval), func() error {
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for i := range getsAtOnce {
			o := s.objects[random.IntN(len(s.objects))]
			if i == 0 {
				get := o.BeginGet(waiting)
				get.Return(o.kind.get(waiting, o.name))
			} else {
				get := o.BeginTryGet()
				get.Return(o.kind.tryGet(o.name))
			}
		}
		return nil
	})
}

// fault cuts connections, or makes them half open, until ctx ends. After a crash it waits for half of the
// connections. A connection has up to a hundred streams: if fewer can be opened between two cuts, because the server
// is slow, and if all are on one connection, then no number of cuts lets more open. No bound is promised for that.
func (s *soak) fault(ctx context.Context, random *rand.Rand) error {
	for pause(ctx, time.Duration(random.Int64N(2*int64(s.options.Faults)))) {
		switch {
		case s.network.counts().open < s.options.connections()/2:
		case random.IntN(4) == 0:
			s.network.loseOne()
		default:
			s.network.cutOne()
		}
	}
	return nil
}

// crash lets the server crash when a third of the quarter is over.
func (s *soak) crash(ctx context.Context) error {
	if !pause(ctx, s.options.Period/12) {
		return nil
	}
	if s.server.Crash != nil {
		return s.server.Crash(s.ctx)
	}
	s.network.setDown(true)
	pause(ctx, outage)
	s.network.setDown(false)
	return nil
}
