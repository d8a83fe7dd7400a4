// SPDX-License-Identifier: Apache-2.0

package objectcache

import "time"

// alarm calls a function with WatchStore.mu held, once or again and again. The store
// waits for it as for a stream.
//
// The runtime may keep a stopped timer, and so all that its function reaches,
// until long after: the function may reach an entry, which lets go of its run,
// and never a run or its object.
type alarm struct {
	timer *time.Timer
	off   bool // guarded by WatchStore.mu
}

// alarmLocked sets an alarm. ring returns after what time it is to be called
// again, 0 for never.
func (w *WatchStore[T]) alarmLocked(after time.Duration, ring func() (again time.Duration)) *alarm {
	a := &alarm{}
	w.streams.Add(1)
	a.timer = time.AfterFunc(after, func() { w.ring(a, ring) })
	return a
}

func (w *WatchStore[T]) ring(a *alarm, ring func() (again time.Duration)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.off {
		if again := ring(); again > 0 && !a.off {
			a.timer.Reset(again)
			return
		}
		a.off = true
	}
	w.streams.Done()
}

// silenceLocked ends an alarm; nil and one that is off are left alone.
func (w *WatchStore[T]) silenceLocked(a *alarm) {
	if a == nil || a.off {
		return
	}
	a.off = true
	if a.timer.Stop() {
		w.streams.Done()
	}
}
