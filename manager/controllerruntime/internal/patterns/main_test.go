// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	logf.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // client-go's log, and sleep by a clock of the process, which a bubble does not have
	goleak.VerifyTestMain(m)
}
