// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// maxViolations bounds how many violations a History keeps. It counts all.
const maxViolations = 20

// History collects the violations of all objects. The zero value is ready for use.
type History struct {
	checked atomic.Int64

	mu         sync.Mutex
	violations []string
	count      int
}

// Object returns the history of an object that does not exist yet. Its name appears in violations.
func (h *History) Object(name string) *Object {
	o := &Object{history: h, name: name}
	o.writes[0].deleted = true
	return o
}

// Checked returns how many states were compared with the writes: those that Gets returned, absences included, and those
// that Changes yielded.
func (h *History) Checked() int64 { return h.checked.Load() }

// Violations returns the first violations and the number of all.
func (h *History) Violations() (first []string, count int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.violations[:len(h.violations):len(h.violations)], h.count
}

// Violate adds a violation that the test itself has found, such as data that nobody wrote.
func (h *History) Violate(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	if len(h.violations) < maxViolations {
		h.violations = append(h.violations, fmt.Sprintf(format, args...))
	}
}

// State is what a reader has seen of an object.
type State struct {
	// Write is the number of the write, as the object's data has it.
	Write int
	// UID and Version are those of the object.
	UID     types.UID
	Version string
}
