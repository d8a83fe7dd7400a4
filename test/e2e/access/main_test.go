// SPDX-License-Identifier: Apache-2.0

// Package access_test holds what refwatch asks of a real API server, and what it is refused, against what it says
// it needs: two verbs on named objects for a user of RBAC, nothing but its own rights for a node.
package access_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
