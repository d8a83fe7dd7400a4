// SPDX-License-Identifier: Apache-2.0

//go:build race

package testmain

// Race reports whether the race detector is on. A test then takes about ten times as long.
const Race = true
