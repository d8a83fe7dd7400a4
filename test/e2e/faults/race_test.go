// SPDX-License-Identifier: Apache-2.0

//go:build race

package faults_test

// raceDetector reports whether the race detector is on. It supports at most 8,128 goroutines.
const raceDetector = true
