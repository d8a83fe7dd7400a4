// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"testing"

	"go.uber.org/goleak"
)

// What a contender starts ends with its context, which nobody waits for: it has a process of its own. Kubelet's
// manager does not end at all.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/kubernetes/pkg/kubelet/util/manager.(*objectCache).shutdownWhenStopped"),
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Until"))
}
