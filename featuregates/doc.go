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
// After the flags are parsed, [Apply] sets the options that the features stand
// for. A nil gate means that every feature has its default.
//
//	options := featuregates.Apply(gate, objectcache.WatchOptions{})
//	secrets, err := manager.NewSecrets(client, options)
//
// A gate that is changed later has no effect on what was made of those options.
//
// No other package of this module imports this one: only a program that does
// links component-base, and with it Prometheus and OpenTelemetry.
package featuregates
