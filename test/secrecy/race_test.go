// SPDX-License-Identifier: Apache-2.0

//go:build race

package secrecy_test

// raceEnabled says whether the race detector is on.
const raceEnabled = true
