// SPDX-License-Identifier: Apache-2.0

// Package access_test checks on a real API server that refwatch needs only the documented rights: list and watch of
// named objects with RBAC, or the rights of a node.
package access_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
