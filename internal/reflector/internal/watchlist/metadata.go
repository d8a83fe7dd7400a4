// SPDX-License-Identifier: Apache-2.0

package watchlist

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// MayCompare reports whether the server may be asked for the metadata of the selection
// alone. It may not for an hour after it did not know that form.
func (c *Chooser) MayCompare() bool {
	c.resource.mu.Lock()
	defer c.resource.mu.Unlock()
	return !time.Now().Before(c.resource.wholeUntil)
}

// CompareFailed records that a list of metadata failed. It reports whether to read the
// state in its place, now: the server may answer that.
func (c *Chooser) CompareFailed(err error) (read bool) {
	class := failure.Of(err)
	if refusesRequest(err) || class == failure.Malformed {
		c.resource.mu.Lock()
		defer c.resource.mu.Unlock()
		c.resource.wholeUntil = time.Now().Add(relearnAfter)
		return true
	}
	return refusesCaller(err) || class == failure.Failed
}
