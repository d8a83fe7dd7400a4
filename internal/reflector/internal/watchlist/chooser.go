// SPDX-License-Identifier: Apache-2.0

package watchlist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/features"
	clientwatchlist "k8s.io/client-go/util/watchlist"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

const (
	// AnswerTimeout bounds the wait for the state, from the request on, of a first
	// attempt. kube-apiserver allows as long for a list.
	AnswerTimeout = time.Minute
	// longestAnswer bounds the wait for the state after attempts without an answer.
	longestAnswer = 4 * AnswerTimeout
	// patience is how long a caller waits for the answer to a first attempt before it is
	// repeated. It doubles with each attempt without an answer, up to AnswerTimeout.
	patience = 5 * time.Second
	// listAfter and listEvery are when a chooser whose WatchLists are refused tries a
	// list: at the third refusal in a row, since the Node authorizer refuses requests
	// for a fresh binding, and at each eighth after it.
	listAfter, listEvery = 3, 8
	// failedEvery is after how many WatchLists of a selection that failed its next attempt
	// is a list, if it was never read, and failedEveryOfAll is the same for a resource. Watches may fail where
	// lists work: a proxy that waits for the end of an answer before it forwards the first
	// byte serves lists only. One bad server of three fails four in a row now and then.
	failedEvery, failedEveryOfAll = 2, 4
	// watchAgainAfter is how long a selection is listed only, if its list is allowed
	// and its watch is refused. The watch is then tried again. One that failed otherwise
	// is tried after each list.
	watchAgainAfter = time.Minute
)

// Chooser decides how the next read of one selection is made. Its methods are safe
// for concurrent use. A name is that of the selection, for the log. Make one with
// [Server.NewChooser].
type Chooser struct {
	resource *resource
	id       uint64 // among the choosers of the server

	mu       sync.Mutex
	record   *record // nil, as nearly always, if WatchLists have simply worked
	listOnly bool    // does not change
	read     bool    // the selection has been read
	listNext bool    // the next session begins with a list
}

// record is what a chooser has learned about its own selection. The zero value
// means that WatchLists work.
type record struct {
	refused     int       // WatchLists that were refused since the last read
	refusal     error     // of the WatchList in whose place a list is tried
	listRefused bool      // the last attempt was a list, and was answered with a refusal
	failed      int       // WatchLists that failed to open since the last one that worked
	failedSince time.Time // when the first of these was asked for
	broken      int       // WatchLists that broke since the last one that worked
	late        int       // attempts in a row without an answer in time
	givenUp     int       // attempts in a row that were given up while a caller waited
	watchError  error     // why there was no watch after the last list; nil if there was. The selection is polled
	listsFailed int       // lists that failed since the last read, while the selection is polled
	watchAgain  time.Time // no watch is tried before
}

// Unsupported reports whether a source must be listed and then watched: the source
// says so (IsWatchListSemanticsUnSupported), or client-go's feature gate
// WatchListClient is off.
func Unsupported(source any) bool {
	return clientwatchlist.DoesClientNotSupportWatchListSemantics(source) ||
		!features.FeatureGates().Enabled(features.WatchListClient)
}

// recordLocked returns c.record, to be changed.
func (c *Chooser) recordLocked() *record {
	if c.record == nil {
		c.record = &record{}
	}
	return c.record
}

// NextUsesList reports whether the session that begins now uses a list. If the
// server has not refused a WatchList, and the last list was refused, it tries a
// WatchList in between: the caller may be allowed to watch only. A selection that is
// polled lists, and tries a WatchList after the first list that fails, and after each
// eighth one from then on: watches may work meanwhile.
func (c *Chooser) NextUsesList() bool {
	needed, refused := c.resource.needsList()
	c.mu.Lock()
	listRefused := c.record != nil && c.record.listRefused
	if listRefused && !c.listOnly {
		c.record.listRefused = false
	}
	list := needed && (refused || !listRefused)
	if t := c.record; t != nil && t.watchError != nil {
		list = refused || t.listsFailed%listEvery != 1
	}
	list = list || c.listOnly || c.listNext
	c.listNext = false
	c.mu.Unlock()
	once := !c.listOnly && c.resource.takeListOnce()
	return list || once
}

// AnswerTimeout returns how long the next attempt may take to deliver the state.
// After an attempt that took too long, each second attempt may take longer: a slow
// server gets its time in the end, and a request that hangs is repeated soon.
func (c *Chooser) AnswerTimeout() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil || c.record.late%2 == 1 {
		return AnswerTimeout
	}
	return min(AnswerTimeout<<min(c.record.late/2, 8), longestAnswer)
}

// Patience returns after how long without an answer the next attempt is given up while a
// caller waits: the answer may be lost, or the server slow.
func (c *Chooser) Patience() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil {
		return patience
	}
	return min(patience<<min(c.record.givenUp+c.record.late, 8), AnswerTimeout)
}

// Synced records that a read has delivered the state, by a list or a WatchList, and
// how long that took. It reports whether all is well: it is not while the watch
// after a list is refused. A server that was slow keeps the longer time-out.
func (c *Chooser) Synced(list bool, took time.Duration) (well bool) {
	if !list {
		c.resource.worked()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = true
	t := c.record
	if t == nil {
		return true
	}
	t.refused, t.refusal, t.listRefused, t.listsFailed = 0, nil, false, 0
	if !list {
		t.failed, t.failedSince = 0, time.Time{}
		t.broken, t.watchError, t.watchAgain = 0, nil, time.Time{}
	}
	if took < AnswerTimeout/2 {
		t.late = 0
	}
	if took < patience/2 {
		t.givenUp = 0
	}
	well = t.watchError == nil
	if *t == (record{}) {
		c.record = nil
	}
	return well
}

// SessionEnded records why a session ended that began then, with a list or a WatchList. A
// WatchList without an answer has failed to open.
func (c *Chooser) SessionEnded(err error, list bool, began time.Time) {
	if !errors.Is(err, failure.ErrNoAnswer) {
		return
	}
	if !list {
		c.openFailed(began)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.recordLocked(); errors.Is(err, failure.ErrGivenUp) {
		t.givenUp++
	} else {
		t.late++
	}
}

// OpenFailed records that a WatchList, asked for at that time, could not be opened.
// It reports whether to list in its place, now.
func (c *Chooser) OpenFailed(ctx context.Context, name fmt.Stringer, err error, asked time.Time) (list bool) {
	switch {
	case refusesRequest(err):
		c.resource.refused()
		c.logLists(ctx, name, err)
		return true
	case refusesCaller(err):
		c.mu.Lock()
		defer c.mu.Unlock()
		t := c.recordLocked()
		if t.watchError != nil && !t.listRefused {
			return true // lists have worked where watches did not
		}
		if t.refused++; t.refused%listEvery != listAfter {
			return false
		}
		t.refusal = err
		return true
	case failure.Of(err) == failure.Malformed: // the source is at fault
		c.Broke(ctx, name, err, asked)
	case mayListInstead(err):
		c.openFailed(asked)
	}
	return false
}

// openFailed counts a WatchList, asked for at that time, that failed to open although lists
// may work. After each second one of the resource since one worked, the next session of any
// selection lists. So does this selection after each second one of its own, if it was never
// read.
func (c *Chooser) openFailed(asked time.Time) {
	c.resource.openFailed()
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.recordLocked()
	if t.failed++; t.failed == 1 {
		t.failedSince = asked
	}
	c.listNext = c.listNext || t.watchError != nil || !c.read && t.failed%failedEvery == 0
}

// EndedEarly records that a WatchList, asked for at that time, ended before it had
// delivered the state. It returns the error to report.
func (c *Chooser) EndedEarly(ctx context.Context, name fmt.Stringer, err error, asked time.Time) error {
	switch {
	case refusesRequest(err), refusesCaller(err):
		if c.OpenFailed(ctx, name, err, asked) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.listNext = true
		}
		return err
	case !isBroken(err):
		return err
	}
	c.Broke(ctx, name, err, asked)
	if class := failure.Of(err); class == failure.Unreachable || class == failure.Failed {
		return fmt.Errorf("%w: %w", failure.ErrEndedEarly, err)
	}
	return err
}

// Broke records that a WatchList, asked for at that time, did not deliver the state.
// The next session lists if the initial events did not end in time, if it is the second one
// of this chooser, or if the resource is listed now. Where WatchLists have worked, one is not
// enough: a connection may break at any time.
func (c *Chooser) Broke(ctx context.Context, name fmt.Stringer, err error, asked time.Time) {
	list := c.resource.broke(c, asked)
	c.mu.Lock()
	t := c.recordLocked()
	t.broken++
	list = list || t.broken > 1 || errors.Is(err, failure.ErrNoBookmark)
	c.listNext = c.listNext || list
	c.mu.Unlock()
	if list {
		c.logLists(ctx, name, err)
	}
}

// ListFailed records that a list failed. It returns the error to report: the refusal
// of the WatchList in whose place the list was tried, unless the server throttles.
func (c *Chooser) ListFailed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	class := failure.Of(err)
	if class.IsRefusal() || class == failure.Malformed {
		c.recordLocked().listRefused = true
	}
	if t := c.record; t != nil && t.watchError != nil {
		t.listsFailed++
	}
	if t := c.record; t != nil && t.refusal != nil {
		if class != failure.Throttled {
			err = t.refusal
		}
		t.refusal = nil
	}
	return err
}

// TryWatchList reports whether a read may use a WatchList in place of the list that
// ended with err: the caller may be allowed to watch only.
func (c *Chooser) TryWatchList(err error) bool {
	needed, _ := c.resource.needsList()
	return !c.listOnly && !needed && refusesCaller(err)
}

// WatchRefusal returns the refusal of the watch after a list, if it is too recent to
// try again. The next session then lists again. A watch that failed otherwise is tried
// after each list.
func (c *Chooser) WatchRefusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil || !time.Now().Before(c.record.watchAgain) {
		return nil
	}
	c.listNext = true
	return c.record.watchError
}

// WatchAnswered records the answer to the watch after a list. While the watch is refused,
// or fails where WatchLists did too, the list is repeated at the pace of the back-off. It
// reports whether a watch that was refused or failed before works now.
func (c *Chooser) WatchAnswered(err error) (recovered bool) {
	fails := false
	if err == nil {
		c.resource.watchWorked()
	} else if mayListInstead(err) {
		fails = c.resource.watchFailed(c.failingSince()) || c.Polls()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && c.record != nil:
		recovered = c.record.watchError != nil
		c.record.failed, c.record.failedSince = 0, time.Time{}
		c.record.watchError, c.record.watchAgain = nil, time.Time{}
	case refusesRequest(err), refusesCaller(err):
		t := c.recordLocked()
		t.watchError, t.watchAgain = err, time.Now().Add(watchAgainAfter)
		c.listNext = true
	case fails:
		c.recordLocked().watchError = err
		c.listNext = true
	}
	return recovered
}

// failingSince returns when the first WatchList was asked for of those that failed since
// the last one that worked, zero if none did.
func (c *Chooser) failingSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil {
		return time.Time{}
	}
	return c.record.failedSince
}

// Polls reports whether lists work, and the watch after them does not.
func (c *Chooser) Polls() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record != nil && c.record.watchError != nil
}

func (c *Chooser) logLists(ctx context.Context, name fmt.Stringer, err error) {
	klog.FromContext(ctx).V(2).Info("The server does not serve WatchList, using list and watch", "reflector", name.String(), "err", err)
}
