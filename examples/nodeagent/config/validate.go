// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/refwatch/refwatch/featuregates"
)

// gateVersion is the emulated version of the feature gates: that of the Kubernetes libraries in go.mod.
const gateVersion = "1.36"

// Validate returns all errors of a configuration, with the paths of their fields.
func Validate(c *NodeAgentConfiguration) field.ErrorList {
	var errs field.ErrorList
	if c.NodeName == "" {
		errs = append(errs, field.Required(field.NewPath("nodeName"), "set it in the configuration file, or by --node-name"))
	} else {
		for _, problem := range validation.IsDNS1123Subdomain(c.NodeName) {
			errs = append(errs, field.Invalid(field.NewPath("nodeName"), c.NodeName, problem))
		}
	}
	if c.RootDir == "" {
		errs = append(errs, field.Required(field.NewPath("rootDir"), "set it in the configuration file, or by --root-dir"))
	}
	if _, err := netip.ParseAddrPort(c.BindAddress); c.Serves() && err != nil {
		errs = append(errs, field.Invalid(field.NewPath("bindAddress"), c.BindAddress,
			"must be an IP address with a port, such as 127.0.0.1:10270, or 0 for none"))
	}
	tmpfs := field.NewPath("tmpfs")
	if c.Tmpfs.Enabled && runtime.GOOS != "linux" {
		errs = append(errs, field.Forbidden(tmpfs.Child("enabled"), "only Linux has tmpfs"))
	}
	if c.Tmpfs.Size.Sign() <= 0 {
		errs = append(errs, field.Invalid(tmpfs.Child("size"), c.Tmpfs.Size.String(), "must be greater than zero"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if err := newGate().SetFromMap(map[string]bool{name: c.FeatureGates[name]}); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("featureGates").Key(name), c.FeatureGates[name], err.Error()))
		}
	}
	return append(errs, logsapi.Validate(&c.Logging, nil, field.NewPath("logging"))...)
}

// Serves reports whether BindAddress is on.
func (c *NodeAgentConfiguration) Serves() bool { return c.BindAddress != "" && c.BindAddress != "0" }

// Gate returns the feature gates. It returns an error if one of FeatureGates is unknown.
func (c *NodeAgentConfiguration) Gate() (featuregate.FeatureGate, error) {
	gate := newGate()
	return gate, gate.SetFromMap(c.FeatureGates)
}

// KnownGates returns a line for each feature gate, for the help.
func KnownGates() []string { return newGate().KnownFeatures() }

func newGate() featuregate.MutableVersionedFeatureGate {
	gate := featuregate.NewVersionedFeatureGate(version.MustParse(gateVersion))
	utilruntime.Must(featuregates.AddFeatureGates(gate)) // cannot fail: the gate is empty
	return gate
}

// Changed returns the names of the fields, at the top of the file, in which two configurations differ.
func Changed(before, after *NodeAgentConfiguration) []string {
	names := []string{} // not nil, which the log prints as null
	a, b := reflect.ValueOf(*before), reflect.ValueOf(*after)
	for i := range a.NumField() {
		if !equality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
