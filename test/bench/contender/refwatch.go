// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/featuregate"

	"github.com/refwatch/refwatch/featuregates"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// newRefwatch returns what starts refwatch's manager as it is by default, or with client-go's reflector.
func newRefwatch(clientGo bool) func(context.Context, Options) (Contender, error) {
	return func(ctx context.Context, options Options) (Contender, error) {
		gate, err := refwatchGate(clientGo)
		if err != nil {
			return nil, err
		}
		client, err := manager.ClientFor(options.Config)
		if err != nil {
			return nil, err
		}
		secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{FeatureGate: gate})
		if err != nil {
			return nil, err
		}
		go func() { _ = secrets.Run(ctx) }() // ends with the process
		if options.Follow != nil {
			go func() {
				for change := range secrets.Changes(ctx) {
					if !change.Deleted {
						options.Follow(change.Object)
					}
				}
			}()
		}
		return secrets, nil
	}
}

func refwatchGate(clientGo bool) (featuregate.FeatureGate, error) {
	gate := featuregate.NewFeatureGate()
	if err := featuregates.AddFeatureGates(gate); err != nil {
		return nil, err
	}
	if !clientGo {
		return gate, nil
	}
	if err := gate.SetFromMap(map[string]bool{string(featuregates.StreamReflector): false}); err != nil {
		return nil, fmt.Errorf("choosing refwatch's engine: %w", err)
	}
	return gate, nil
}

var _ Contender = (*manager.Manager[*corev1.Secret])(nil)
