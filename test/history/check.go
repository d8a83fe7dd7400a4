// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Check checks a history in JSON lines, as a [Recorder] writes it. It returns an error, and what was found so far, if a
// line cannot be read or if there is none.
func Check(lines io.Reader, limits Limits) (Report, error) {
	checker := NewChecker(limits)
	decoder := json.NewDecoder(lines)
	decoder.DisallowUnknownFields()
	for line := 1; ; line++ {
		var e Event
		err := decoder.Decode(&e)
		switch {
		case errors.Is(err, io.EOF) && line == 1:
			return checker.Report(), errors.New("line 1 of the history is missing: the file is empty")
		case errors.Is(err, io.EOF):
			return checker.Finish(checker.last()), nil
		case err != nil:
			return checker.Report(), fmt.Errorf("line %d of the history: %w", line, err)
		case line == 1 && e.Op != Run:
			return checker.Report(), fmt.Errorf("line 1 of the history is an event %q, want %q: the file is no history, or has lost its begin", e.Op, Run)
		}
		checker.Add(e)
	}
}

// last returns the time of the last event.
func (c *Checker) last() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}
