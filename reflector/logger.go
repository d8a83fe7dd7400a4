// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
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
	ctx = klog.NewContext(ctx, logger.WithSink(cappedSink{logger.GetSink()}))
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
