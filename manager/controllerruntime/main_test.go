// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// rootLines is called with each line of controller-runtime's own logger, nil if no test
// reads them. SetLogger has an effect only once in a process.
var rootLines atomic.Pointer[func(prefix, args string)]

// rootSink is on while a test reads rootLines: from verbosity 5 on, controller-runtime's queues log their items
// without a lock.
type rootSink struct{ logr.LogSink }

func (s rootSink) Enabled(int) bool { return rootLines.Load() != nil }

func (s rootSink) WithName(name string) logr.LogSink { return rootSink{s.LogSink.WithName(name)} }

func (s rootSink) WithValues(values ...any) logr.LogSink {
	return rootSink{s.LogSink.WithValues(values...)}
}

func TestMain(m *testing.M) {
	logger := funcr.New(func(prefix, args string) {
		if lines := rootLines.Load(); lines != nil {
			(*lines)(prefix, args)
		}
	}, funcr.Options{Verbosity: 10})
	logf.SetLogger(logger.WithSink(rootSink{logger.GetSink()}))
	goleak.VerifyTestMain(m)
}
