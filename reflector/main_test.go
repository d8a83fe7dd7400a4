// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// clientGo is set while the tests run with client-go's Reflector.
var clientGo bool

// TestMain runs every test with each engine.
func TestMain(m *testing.M) {
	for name, each := range map[string]bool{"stream": false, "client-go": true} {
		clientGo = each
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
