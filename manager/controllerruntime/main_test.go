// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// rootLines is called with each line of controller-runtime's own logger, nil if no test
// reads them. SetLogger has an effect only once in a process.
var rootLines atomic.Pointer[func(prefix, args string)]

func TestMain(m *testing.M) {
	logf.SetLogger(funcr.New(func(prefix, args string) {
		if lines := rootLines.Load(); lines != nil {
			(*lines)(prefix, args)
		}
	}, funcr.Options{}))
	goleak.VerifyTestMain(m)
}
