// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// newRefwatch returns what starts refwatch's manager as it is by default, or with client-go's reflector.
func newRefwatch(clientGo bool) func(context.Context, Options) (Contender, error) {
	return func(ctx context.Context, options Options) (Contender, error) {
		client, err := manager.ClientFor(options.Config)
		if err != nil {
			return nil, err
		}
		secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{ClientGoReflector: clientGo})
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

var _ Contender = (*manager.Manager[*corev1.Secret])(nil)
