// SPDX-License-Identifier: Apache-2.0

package reflector

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

// withoutBodies returns ctx with a logger that has everything from bodyLevel up
// switched off. That works only while klog hands out the loggers of contexts,
// which k8s.io/component-base/cli switches off for a program that does not apply
// its logging options; there is no other way to keep client-go quiet, so the
// operator is warned.
func withoutBodies(ctx context.Context) context.Context {
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

// quotingLevel is the verbosity from which client-go logs errors that quote what
// it could not decode, which is 5.
const quotingLevel = 5

// cappedSink hides verbose levels of the sink within, and the text of errors that
// may quote an object.
type cappedSink struct{ logr.LogSink }

// newCappedSink makes the sink within skip the methods of this one when it looks
// for the line that logs.
func newCappedSink(sink logr.LogSink) cappedSink {
	return cappedSink{sink}.WithCallDepth(1).(cappedSink)
}

// Info hides the text of errors at levels where they are not this package's own.
func (s cappedSink) Info(level int, msg string, keysAndValues ...any) {
	if level >= quotingLevel {
		keysAndValues = slices.Clone(keysAndValues)
		for i, value := range keysAndValues {
			if err, ok := value.(error); ok {
				keysAndValues[i] = harmless(err)
			}
		}
	}
	s.LogSink.Info(level, msg, keysAndValues...)
}

// Error is here to be as deep on the stack as Info.
func (s cappedSink) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.Error(err, msg, keysAndValues...)
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

// WithCallDepth keeps the file and line of a log line right.
func (s cappedSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return cappedSink{deep.WithCallDepth(depth)}
	}
	return s
}
