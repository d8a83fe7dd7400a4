// SPDX-License-Identifier: Apache-2.0

package states

// First decides about an object that exists, in a read of it alone (GET) that may overlap
// other reads. It counts only if nothing was seen but by First: an object that is older than
// what comes later is no contradiction, and what comes later and is older is late.
func (o *Order[T]) First(held, read State[T]) (State[T], Verdict) {
	switch order, _ := CompareVersions(read.ResourceVersion, o.version); {
	case o.version == "" && !held.Synced:
	case o.first && order == 0:
		return held, Same
	case !o.first || order < 0:
		return held, Late
	}
	o.version, o.first = read.ResourceVersion, true
	o.newWriter = false // a read that is under way may be older
	return o.next(held, read)
}
