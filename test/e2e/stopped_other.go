// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package e2e

// waitStopped has nothing to wait for: on the BSDs and macOS kill(2) has stopped the process when it returns.
func waitStopped(int) {}
