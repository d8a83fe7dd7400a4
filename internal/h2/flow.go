// SPDX-License-Identifier: Apache-2.0

package h2

// inflow is the window in which the server sends: that of a stream or of the
// connection. Its size is an argument of each call, to keep a stream's record small.
type inflow struct {
	available int32 // what the server may send
	withheld  int32 // consumed, but not announced by a WINDOW_UPDATE yet
}

// take counts n bytes that arrived. It reports false if the server was not allowed to
// send as many.
func (f *inflow) take(n int32) bool {
	if n > f.available {
		return false
	}
	f.available -= n
	return true
}

// credit counts n bytes as consumed, at most as many as arrived and were not counted
// before. It returns the increment of a WINDOW_UPDATE that is due, or 0.
//
// An update is due when a quarter of the window is withheld, so that small events cause
// few frames; or when as much is withheld as the server may still send, so that a
// receiver that waits for the rest of a large event can always get a whole window.
func (f *inflow) credit(n int, size int32) (increment int32) {
	outstanding := size - f.available - f.withheld
	f.withheld += int32(min(max(n, 0), int(outstanding)))
	if f.withheld == 0 || f.withheld < size/4 && f.withheld < f.available {
		return 0
	}
	increment, f.withheld = f.withheld, 0
	f.available += increment
	return increment
}
