// SPDX-License-Identifier: Apache-2.0

package featuregates_test

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/refwatch/refwatch/featuregates"
	"github.com/refwatch/refwatch/objectcache"
)

// A program adds the features to its gate, and the gate to its flags. Apply sets the
// options after the flags are parsed.
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
	options := featuregates.Apply(gate, objectcache.WatchOptions{IdleTimeout: time.Hour})
	fmt.Println("streams of immutable objects:", options.WatchImmutable)
	fmt.Println("idle after", options.IdleTimeout)
	// Output:
	// streams of immutable objects: true
	// idle after 1h0m0s
}

// A program may set a gate without flags.
func ExampleApply() {
	gate := featuregate.NewFeatureGate()
	if err := featuregates.AddFeatureGates(gate); err != nil {
		fmt.Println(err)
		return
	}
	if err := gate.SetFromMap(map[string]bool{string(featuregates.ImmutableEphemeralVolumes): false}); err != nil {
		fmt.Println(err)
		return
	}
	options := featuregates.Apply(gate, objectcache.WatchOptions{})
	fmt.Println("streams of immutable objects:", options.WatchImmutable)
	// Output: streams of immutable objects: true
}
