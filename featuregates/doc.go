// SPDX-License-Identifier: Apache-2.0

// Package featuregates holds the feature gates of this module, built on
// [k8s.io/component-base/featuregate].
//
// The package keeps no global gate and has no init function, so importing it
// changes nothing. A program that has a gate of its own adds the features of
// this module to it, before it adds the gate to its flags:
//
//	gate := featuregate.NewFeatureGate()
//	if err := featuregates.AddFeatureGates(gate); err != nil {
//		return err
//	}
//	gate.AddFlag(flags) // --feature-gates=ImmutableEphemeralVolumes=false
//
// The gate is then handed to the parts of this module as an option. A nil
// gate means that every feature has its default.
//
// Code that is gated asks [Enabled] once, when it is constructed, and keeps the
// answer: a gate that is changed later has no effect on what already runs.
package featuregates
