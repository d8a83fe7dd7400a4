// SPDX-License-Identifier: Apache-2.0

package listwatch_test

import (
	"testing"

	"go.uber.org/goleak"
)

// canary is what must never be seen in an error.
const canary = "canary-canary-canary"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
