// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"
)

// bookmarkPeriod is longer than the time between two bookmarks of a stream, of 60 to 75 s.
const bookmarkPeriod = 80 * time.Second

// measureBookmarks measures the CPU time of this process while all streams are open and get nothing but bookmarks.
func (w *worker) measureBookmarks(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	// A server that has seen no change of any Secret since its start sends no bookmark.
	if _, _, _, err := w.update(ctx, 0); err != nil {
		return err
	}
	_ = memoryOfProcess() // collects what loading left
	first, err := w.server.metrics(ctx)
	if err != nil {
		return err
	}
	profile, err := w.startProfile(usualHeap)
	if err != nil {
		return err
	}
	before := cpuOfProcess()
	select {
	case <-time.After(bookmarkPeriod):
	case <-ctx.Done():
		return ctx.Err()
	}
	used := cpuOfProcess() - before
	if err := profile(); err != nil {
		return err
	}
	last, err := w.server.metrics(ctx)
	if err != nil {
		return err
	}
	bookmarks := last.events - first.events
	if bookmarks == 0 {
		return errors.New("the server has sent no bookmark")
	}
	w.round.Values["cpu-us-per-bookmark"] = float64(used.Microseconds()) / bookmarks
	w.round.Values["bookmarks"] = bookmarks
	return nil
}
