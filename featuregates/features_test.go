// SPDX-License-Identifier: Apache-2.0

package featuregates_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"github.com/refwatch/refwatch/featuregates"
	"github.com/refwatch/refwatch/objectcache"
)

const immutable = featuregates.ImmutableEphemeralVolumes

// gates returns gates as programs make them. The features must not depend on the
// version of the program.
func gates() map[string]featuregate.MutableVersionedFeatureGate {
	return map[string]featuregate.MutableVersionedFeatureGate{
		"of the linked component-base": featuregate.NewFeatureGate(),
		"of Kubernetes 1.36":           featuregate.NewVersionedFeatureGate(version.MustParse("1.36")),
		"of Kubernetes 1.0":            featuregate.NewVersionedFeatureGate(version.MustParse("1.0")),
		"of an agent at 0.1":           featuregate.NewVersionedFeatureGate(version.MustParse("0.1")),
		"of a controller at 7.2":       featuregate.NewVersionedFeatureGate(version.MustParse("7.2")),
	}
}

// add adds the features, and fails the test on an error.
func add(t *testing.T, gate featuregate.MutableVersionedFeatureGate) {
	t.Helper()
	if err := featuregates.AddFeatureGates(gate); err != nil {
		t.Fatalf("AddFeatureGates: got %v, want no error", err)
	}
}

func TestAddFeatureGates(t *testing.T) {
	for name, gate := range gates() {
		t.Run(name, func(t *testing.T) {
			add(t, gate)
			if !gate.Enabled(immutable) {
				t.Errorf("%s: got off, want on by default", immutable)
			}
			if err := gate.Set(string(immutable) + "=false"); err != nil {
				t.Fatalf("set %s to false: got %v, want no error: the feature is not locked", immutable, err)
			}
			if gate.Enabled(immutable) {
				t.Errorf("%s after Set to false: got on, want off", immutable)
			}
			if errs := gate.Validate(); len(errs) > 0 {
				t.Errorf("Validate: got %v, want none", errs)
			}
		})
	}
}

// AllBeta=false and AllAlpha=false do not concern a GA feature.
func TestGAFeatureIsNotTouchedByAllBeta(t *testing.T) {
	gate := featuregate.NewFeatureGate()
	add(t, gate)
	if err := gate.Set("AllAlpha=false,AllBeta=false"); err != nil {
		t.Fatalf("Set: got %v, want no error", err)
	}
	if !gate.Enabled(immutable) {
		t.Errorf("%s with AllBeta=false: got off, want on", immutable)
	}
}

func TestAddFeatureGatesTwice(t *testing.T) {
	gate := featuregate.NewFeatureGate()
	add(t, gate)
	if err := gate.Set(string(immutable) + "=false"); err != nil {
		t.Fatalf("Set: got %v, want no error", err)
	}
	add(t, gate)
	if gate.Enabled(immutable) {
		t.Errorf("%s after a second AddFeatureGates: got on, want off, as it was set", immutable)
	}
}

// Two gates share no state: AddFeatureGates copies the specs.
func TestAddFeatureGatesToTwoGates(t *testing.T) {
	first, second := featuregate.NewFeatureGate(), featuregate.NewFeatureGate()
	add(t, first)
	if err := first.OverrideDefault(immutable, false); err != nil {
		t.Fatalf("OverrideDefault: got %v, want no error", err)
	}
	add(t, second)
	if first.Enabled(immutable) || !second.Enabled(immutable) {
		t.Errorf("%s: got %t and %t, want false and true", immutable, first.Enabled(immutable), second.Enabled(immutable))
	}
	if !enabled(nil) {
		t.Errorf("Apply(nil) after an override elsewhere: got false, want true")
	}
}

func TestAddFeatureGatesRefused(t *testing.T) {
	clash := featuregate.NewFeatureGate()
	spec := featuregate.FeatureSpec{Default: false, PreRelease: featuregate.Alpha}
	if err := clash.Add(map[featuregate.Feature]featuregate.FeatureSpec{immutable: spec}); err != nil {
		t.Fatalf("Add: got %v, want no error", err)
	}
	closed := featuregate.NewFeatureGate()
	closed.AddFlag(pflag.NewFlagSet("test", pflag.ContinueOnError))

	tests := map[string]struct {
		gate featuregate.MutableVersionedFeatureGate
		want string
	}{
		"another spec under the same name": {clash, "different spec already exists"},
		"gate already in a flag set":       {closed, "after adding it to the flag set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := len(test.gate.GetAllVersioned())
			err := featuregates.AddFeatureGates(test.gate)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("AddFeatureGates: got %v, want an error with %q", err, test.want)
			}
			if errors.Unwrap(err) == nil || !strings.Contains(err.Error(), "refwatch") {
				t.Errorf("AddFeatureGates: got %q, want an error that wraps the cause and names refwatch", err)
			}
			if after := len(test.gate.GetAllVersioned()); after != before {
				t.Errorf("features after the error: got %d, want %d as before", after, before)
			}
		})
	}
}

// A gate without the feature has its default, and does not panic.
func TestGateWithoutTheFeature(t *testing.T) {
	if !enabled(featuregate.NewFeatureGate()) {
		t.Error("got it off, want it on, its default")
	}
}

// Apply sets the option of the feature that is off, and no others. An option that is set
// stays set.
func TestApply(t *testing.T) {
	tests := map[string]struct {
		set            string
		watchImmutable bool
	}{
		"defaults":          {"", false},
		"immutable watched": {"ImmutableEphemeralVolumes=false", true},
		"no beta feature":   {"AllBeta=false", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gate := featuregate.NewFeatureGate()
			add(t, gate)
			if err := gate.Set(test.set); err != nil {
				t.Fatal(err)
			}
			want := objectcache.WatchOptions{IdleTimeout: 1, WatchImmutable: test.watchImmutable}
			if got := featuregates.Apply(gate, objectcache.WatchOptions{IdleTimeout: 1}); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			set := objectcache.WatchOptions{WatchImmutable: true}
			if got := featuregates.Apply(gate, set); !reflect.DeepEqual(got, set) {
				t.Errorf("set before: got %+v, want %+v", got, set)
			}
		})
	}
	if got, want := featuregates.Apply(nil, objectcache.WatchOptions{}), (objectcache.WatchOptions{}); !reflect.DeepEqual(got, want) {
		t.Errorf("no gate: got %+v, want the defaults, %+v", got, want)
	}
	if err := featuregates.AddFeatureGates(nil); err == nil {
		t.Error("AddFeatureGates(nil): got no error, want one")
	}
}

// enabled reports whether Apply takes the feature for one that is on.
func enabled(gate featuregate.FeatureGate) bool {
	return !featuregates.Apply(gate, objectcache.WatchOptions{}).WatchImmutable
}

func TestFeatureGatesFlag(t *testing.T) {
	tests := map[string]struct {
		args    []string
		want    bool
		wantErr string
	}{
		"absent":          {nil, true, ""},
		"off":             {[]string{"--feature-gates=ImmutableEphemeralVolumes=false"}, false, ""},
		"on":              {[]string{"--feature-gates=ImmutableEphemeralVolumes=true"}, true, ""},
		"last one counts": {[]string{"--feature-gates=ImmutableEphemeralVolumes=true", "--feature-gates=ImmutableEphemeralVolumes=false"}, false, ""},
		"unknown":         {[]string{"--feature-gates=ImutableVolumes=false"}, true, "unrecognized feature gate: ImutableVolumes"},
		"wrong case":      {[]string{"--feature-gates=immutableephemeralvolumes=false"}, true, "unrecognized feature gate: immutableephemeralvolumes"},
		"no value":        {[]string{"--feature-gates=ImmutableEphemeralVolumes"}, true, "missing bool value for ImmutableEphemeralVolumes"},
		"no bool":         {[]string{"--feature-gates=ImmutableEphemeralVolumes=maybe"}, true, "invalid value of ImmutableEphemeralVolumes=maybe"},
		"known, unknown":  {[]string{"--feature-gates=ImmutableEphemeralVolumes=false,Nope=true"}, true, "unrecognized feature gate: Nope"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gate := featuregate.NewFeatureGate()
			add(t, gate)
			flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
			flags.SetOutput(io.Discard)
			gate.AddFlag(flags)

			err := flags.Parse(test.args)
			switch {
			case test.wantErr == "" && err != nil:
				t.Fatalf("Parse: got %v, want no error", err)
			case test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)):
				t.Fatalf("Parse: got %v, want an error with %q", err, test.wantErr)
			}
			if got := enabled(gate); got != test.want {
				t.Errorf("%s: got %t, want %t", immutable, got, test.want)
			}
		})
	}
}
