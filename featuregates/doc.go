// SPDX-License-Identifier: Apache-2.0

// Package featuregates defines the feature gates of this module, with
// [k8s.io/component-base/featuregate].
//
// The package has no global gate and no init function: importing it changes
// nothing. A program adds the features of this module to its own gate, before it
// adds the gate to its flags:
//
//	gate := featuregate.NewFeatureGate()
//	if err := featuregates.AddFeatureGates(gate); err != nil {
//		return err
//	}
//	gate.AddFlag(flags) // --feature-gates=ImmutableEphemeralVolumes=false
//
// After the flags are parsed, [Apply] sets the options of the features. With a nil
// gate, every feature has its default.
//
//	options := featuregates.Apply(gate, objectcache.WatchOptions{})
//	secrets, err := manager.NewSecrets(client, options)
//
// Later changes of the gate have no effect on these options.
//
// No other package of this module imports this one. So a program links
// component-base, and with it Prometheus and OpenTelemetry, only if it imports
// featuregates.
package featuregates
