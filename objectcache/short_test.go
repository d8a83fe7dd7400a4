// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"

	"github.com/refwatch/refwatch/test/testmain"
)

// crowd skips a test that takes long, because of its many objects, if go test has the flag -short.
func crowd(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many objects: not with -short")
	}
}

// fewer returns how many of so many random rounds a test makes: a tenth if go test has the flag -short, a third with
// the race detector, under which a round takes ten times as long.
func fewer(rounds int) int {
	switch {
	case testing.Short():
		return (rounds + 9) / 10
	case testmain.Race:
		return (rounds + 2) / 3
	}
	return rounds
}
