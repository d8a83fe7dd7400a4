// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"github.com/go-logr/logr"
)

// bodyLevel is the verbosity from which client-go prints request and response
// bodies, secret bytes and all (k8s.io/client-go/rest).
const bodyLevel = 8

// withoutBodies returns the logger with everything from bodyLevel up switched
// off.
func withoutBodies(logger logr.Logger) logr.Logger {
	if logger.GetSink() == nil {
		return logger
	}
	return logger.WithSink(cappedSink{logger.GetSink()})
}

// cappedSink hides verbose levels of the sink within.
type cappedSink struct{ logr.LogSink }

func (s cappedSink) Enabled(level int) bool {
	return level < bodyLevel && s.LogSink.Enabled(level)
}

func (s cappedSink) WithValues(keysAndValues ...any) logr.LogSink {
	return cappedSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s cappedSink) WithName(name string) logr.LogSink {
	return cappedSink{s.LogSink.WithName(name)}
}

// WithCallDepth keeps the file and line of a log line right.
func (s cappedSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return cappedSink{deep.WithCallDepth(depth)}
	}
	return s
}
