// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"github.com/refwatch/refwatch/test/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }
