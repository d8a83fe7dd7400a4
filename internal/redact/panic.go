// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// ErrPanic is wrapped by an error that [Panic] sets.
var ErrPanic = errors.New("panic")

// Panic sets *err if the function that defers it panics. The value of the panic
// may hold an object: the error names its type and where it panicked, no more.
func Panic(err *error) {
	if value := recover(); value != nil {
		*err = fmt.Errorf("%w: a %T in %s", ErrPanic, value, panicker())
	}
}

// panicker returns the function that panicked. It is called by Panic.
func panicker() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for panicked := false; ; {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(frame.Function, "runtime."):
			return fmt.Sprintf("%s, line %d", frame.Function, frame.Line)
		case !more:
			return "a function that is not known"
		}
	}
}
