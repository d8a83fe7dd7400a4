// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"

	"github.com/refwatch/refwatch/test/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }
