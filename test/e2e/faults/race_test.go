// SPDX-License-Identifier: Apache-2.0

//go:build race

package faults_test

// raceDetector tells a test that the race detector is on: it bears 8,128 goroutines.
const raceDetector = true
