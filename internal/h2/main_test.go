// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http's client logs the faults that it sees
	goleak.VerifyTestMain(m)
}
