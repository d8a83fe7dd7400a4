// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"time"

	"github.com/refwatch/refwatch/cache"
)

// GetOptions are the demands of one Get on the state that it returns. The zero value
// demands nothing: the last known state will do. A Get waits until all demands are
// met. It fails if its context ends, if the server refuses for WatchOptions.RefusalGrace, or
// if a read that it has asked for is older than NotOlderThan.
// [TTLStore.GetWithOptions] and [DirectStore.GetWithOptions] describe what is different there.
type GetOptions struct {
	// MaxStaleness bounds the time since the server last sent something about the
	// object, as WatchOptions.MaxStaleness does; the smaller one counts. Default, also for
	// a negative value: no other bound than that of the store.
	MaxStaleness time.Duration
	// NotOlderThan is a resource version that the state must include: that of an
	// earlier write, for a program that has to read its own writes. If no event
	// brings the version within 100 ms, the object is read again. If that read is
	// older still, the server has never had the version, or was rolled back, and the
	// error has [ErrStale] joined to it. A bookmark of that version or a later one counts
	// as well: the server sends it after all events up to it. Default: any version.
	NotOlderThan string
	// Live demands a consistent read that begins after the call. The stream of the object
	// is opened again for it. Gets that wait for the same object share a read, and
	// further reads of it begin 1.1 to 1.6 s after each other, or 0.25 s if the object has
	// no stream of its own, within the limits of the [Gate]. Default: memory will do.
	Live bool

	uncounted bool // Stats does not count the Get: it is that of a WaitForSync
}

// validate returns an error if an option has an invalid value.
func (o *GetOptions) validate() error {
	if o.NotOlderThan == "" {
		return nil
	}
	if err := cache.CheckVersion(o.NotOlderThan); err != nil {
		return fmt.Errorf("GetOptions.NotOlderThan: %w", err)
	}
	return nil
}
