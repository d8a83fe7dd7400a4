// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// bodyLevel is the verbosity from which client-go prints request and response
// bodies, secret bytes and all (k8s.io/client-go/rest).
const bodyLevel = 8

// Context returns ctx with a logger that logs nothing from bodyLevel up. That
// works only with contextual logging, which k8s.io/component-base/cli switches off
// for a program that does not apply its logging options. There is no other way to
// keep client-go quiet, so Context logs a warning then, once.
func Context(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	if logger.GetSink() == nil {
		return ctx
	}
	ctx = klog.NewContext(ctx, logger.WithSink(newCappedSink(logger.GetSink())))
	if klog.FromContext(ctx).V(bodyLevel).Enabled() {
		warnOfBodies(logger)
	}
	return ctx
}

var warned sync.Once

func warnOfBodies(logger logr.Logger) {
	warned.Do(func() {
		logger.Info("WARNING: contextual logging is switched off (klog.EnableContextualLogging), "+
			"so at this verbosity client-go prints objects, secrets included; switch it on, or log less",
			"verbosity", bodyLevel)
	})
}

// quotingLevel is the verbosity from which client-go logs errors that quote an
// object.
const quotingLevel = 5

// cappedSink drops the verbose levels of a sink, and hides the text of errors that
// may quote an object.
type cappedSink struct{ logr.LogSink }

// newCappedSink returns a capped sink that reports the file and line of its caller.
func newCappedSink(sink logr.LogSink) cappedSink {
	return cappedSink{sink}.WithCallDepth(1).(cappedSink)
}

// Info hides the text of errors at the levels where client-go logs them.
func (s cappedSink) Info(level int, msg string, keysAndValues ...any) {
	if level >= quotingLevel {
		keysAndValues = redacted(keysAndValues)
	}
	s.LogSink.Info(level, msg, keysAndValues...)
}

// Error hides the text of errors: client-go logs those of connections, which quote what
// net/http could not parse.
func (s cappedSink) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.Error(Error(err), msg, redacted(keysAndValues)...)
}

// redacted hides the text of the errors in a copy of keysAndValues.
func redacted(keysAndValues []any) []any {
	keysAndValues = slices.Clone(keysAndValues)
	for i, value := range keysAndValues {
		if err, ok := value.(error); ok {
			keysAndValues[i] = Error(err)
		}
	}
	return keysAndValues
}

func (s cappedSink) Enabled(level int) bool {
	return level < bodyLevel && s.LogSink.Enabled(level)
}

func (s cappedSink) WithValues(keysAndValues ...any) logr.LogSink {
	return cappedSink{s.LogSink.WithValues(keysAndValues...)}
}

func (s cappedSink) WithName(name string) logr.LogSink {
	return cappedSink{s.LogSink.WithName(name)}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s cappedSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return cappedSink{deep.WithCallDepth(depth)}
	}
	return s
}
