// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/reflector"
)

// engine is the one that the tests run with, unless they name another.
var engine reflector.Engine

// TestMain runs every test with each engine.
func TestMain(m *testing.M) {
	for name, each := range map[string]reflector.Engine{"stream": reflector.StreamEngine, "client-go": reflector.ClientGoEngine} {
		engine = each
		fmt.Fprintln(os.Stderr, "engine:", name)
		if code := m.Run(); code != 0 {
			os.Exit(code)
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
