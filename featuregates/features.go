// SPDX-License-Identifier: Apache-2.0

package featuregates

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"github.com/refwatch/refwatch/objectcache"
)

// ImmutableEphemeralVolumes ends the stream of a Secret or ConfigMap whose
// field "immutable" is true as soon as it is synced, for its data cannot change
// any more. Off, such an object is followed like any other.
//
// GA, default true. The name is Kubernetes' own: alpha in 1.18, beta in 1.19,
// GA in 1.21, KEP-1412.
const ImmutableEphemeralVolumes featuregate.Feature = "ImmutableEphemeralVolumes"

// StreamReflector reads each watch in one goroutine of its own, which takes half
// the memory and two of five goroutines that client-go's Reflector takes. Off,
// client-go's Reflector drives every stream; the promises are the same.
//
// Beta, default true.
const StreamReflector featuregate.Feature = "StreamReflector"

// versionedSpecs is read-only.
//
// The version of a spec is compared with that of the gate, and a gate counts as
// the program it belongs to does: 1.36 in a part of Kubernetes, 0.3 in a young
// agent. The features here depend on this module and on the server, not on that
// number, so their specs hold from 0.0 on. With 1.21 as the version, the agent
// that is at 0.3 would silently be without the feature.
//
// Kubernetes locks a gate that is GA. This one stays unlocked: an owner who sets
// it off learns of an immutable object that was deleted and made anew while the
// owner still holds it, and pays with one stream per object for that.
var versionedSpecs = map[featuregate.Feature]featuregate.VersionedSpecs{
	ImmutableEphemeralVolumes: {
		{Version: version.MajorMinor(0, 0), Default: true, PreRelease: featuregate.GA},
	},
	StreamReflector: {
		{Version: version.MajorMinor(0, 0), Default: true, PreRelease: featuregate.Beta},
	},
}

// AddFeatureGates adds the features of this module to gate, or returns an error
// and leaves gate as it was. Adding them to one gate twice is fine.
//
// It fails if gate is nil, if it already has a feature of the same name with
// another spec, or if it takes no more features because it was added to a flag
// set or closed.
func AddFeatureGates(gate featuregate.MutableVersionedFeatureGate) error {
	if gate == nil {
		return errors.New("add refwatch's feature gates: the gate is nil")
	}
	if err := gate.AddVersioned(versionedSpecs); err != nil {
		return fmt.Errorf("add refwatch's feature gates: %w", err)
	}
	return nil
}

// Apply returns options with WatchImmutable and ClientGoReflector as gate has the
// features that they stand for. The rest of options stays as it is.
func Apply(gate featuregate.FeatureGate, options objectcache.WatchOptions) objectcache.WatchOptions {
	options.WatchImmutable = !Enabled(gate, ImmutableEphemeralVolumes)
	options.ClientGoReflector = !Enabled(gate, StreamReflector)
	return options
}

// Enabled reports whether gate has the feature on. The default of the feature
// counts if gate is nil or does not know it, as happens to a program that never
// called [AddFeatureGates]. A feature that this module does not know either is
// off.
//
// It copies the gate and is no part of a hot path. Unlike the method of the same
// name, it does not panic on an unknown feature.
func Enabled(gate featuregate.FeatureGate, name featuregate.Feature) bool {
	if gate != nil {
		// KnownFeatures does not list a feature that is GA, a copy of the gate does.
		if _, known := gate.DeepCopy().GetAllVersioned()[name]; known {
			return gate.Enabled(name)
		}
	}
	specs := versionedSpecs[name]
	return len(specs) > 0 && specs[len(specs)-1].Default
}
