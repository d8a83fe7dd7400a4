// SPDX-License-Identifier: Apache-2.0

package featuregates_test

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/refwatch/refwatch/featuregates"
)

// A program adds the features to its gate, and the gate to its flags. The gate
// then goes to the parts of this module as an option.
func ExampleAddFeatureGates() {
	gate := featuregate.NewFeatureGate()
	if err := featuregates.AddFeatureGates(gate); err != nil {
		fmt.Println(err)
		return
	}
	flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	gate.AddFlag(flags)
	if err := flags.Parse([]string{"--feature-gates=ImmutableEphemeralVolumes=false"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(featuregates.Enabled(gate, featuregates.ImmutableEphemeralVolumes))
	fmt.Println(featuregates.Enabled(nil, featuregates.ImmutableEphemeralVolumes))
	// Output:
	// false
	// true
}
