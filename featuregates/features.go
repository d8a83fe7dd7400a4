// SPDX-License-Identifier: Apache-2.0

package featuregates

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"github.com/refwatch/refwatch/objectcache"
)

// ImmutableEphemeralVolumes ends the stream of an immutable Secret or ConfigMap as
// soon as it is synced, because its data cannot change. If the feature is off, the
// stream stays open, as that of any other object.
//
// GA, default true. Kubernetes has a feature of this name: alpha in 1.18, beta in
// 1.19, GA in 1.21, KEP-1412.
const ImmutableEphemeralVolumes featuregate.Feature = "ImmutableEphemeralVolumes"

// versionedSpecs is read-only.
//
// A gate compares the version of a spec with its own, which is that of its program:
// 1.36 in a component of Kubernetes, 0.3 in a young agent. The features here do not
// depend on that version, so their specs hold from 0.0 on. With a spec from 1.21 on,
// an agent at 0.3 would not have the feature, and no error would say so.
//
// Kubernetes locks a feature to its default when it is GA. ImmutableEphemeralVolumes
// stays unlocked: a program that sets it to false notices at once when an immutable
// object is deleted and created again, at the cost of one stream per object.
var versionedSpecs = map[featuregate.Feature]featuregate.VersionedSpecs{
	ImmutableEphemeralVolumes: {
		{Version: version.MajorMinor(0, 0), Default: true, PreRelease: featuregate.GA},
	},
}

// AddFeatureGates adds the features of this module to gate. Adding them twice is no
// error.
//
// AddFeatureGates returns an error, and does not change gate, if gate is nil, if it
// has a feature of the same name with another spec, or if it accepts no more
// features because it was added to a flag set or closed.
func AddFeatureGates(gate featuregate.MutableVersionedFeatureGate) error {
	if gate == nil {
		return errors.New("add refwatch's feature gates: the gate is nil")
	}
	if err := gate.AddVersioned(versionedSpecs); err != nil {
		return fmt.Errorf("add refwatch's feature gates: %w", err)
	}
	return nil
}

// Apply returns options with WatchImmutable set if ImmutableEphemeralVolumes is off in gate. If
// options has it set, it stays set: the program's options and its gate may each switch the
// feature off. The other options stay as they are. If gate is nil, or does not have the feature
// because [AddFeatureGates] was not called, the feature has its default.
func Apply(gate featuregate.FeatureGate, options objectcache.WatchOptions) objectcache.WatchOptions {
	if gate == nil {
		return options
	}
	// KnownFeatures omits features that are GA; a copy of the gate has them. Enabled panics on an unknown one.
	if _, known := gate.DeepCopy().GetAllVersioned()[ImmutableEphemeralVolumes]; known && !gate.Enabled(ImmutableEphemeralVolumes) {
		options.WatchImmutable = true
	}
	return options
}
