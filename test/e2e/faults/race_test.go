// SPDX-License-Identifier: Apache-2.0

//go:build race

package faults_test

// raceDetector is whether the race detector is on, which bears 8,128 goroutines.
const raceDetector = true
