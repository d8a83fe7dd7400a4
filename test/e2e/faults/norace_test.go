// SPDX-License-Identifier: Apache-2.0

//go:build !race

package faults_test

const raceDetector = false
