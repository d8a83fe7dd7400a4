// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package e2e

// waitStopped does nothing: on the BSDs and macOS kill(2) has stopped the process when it returns.
func waitStopped(int) {}
