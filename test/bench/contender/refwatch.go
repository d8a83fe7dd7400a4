// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// newRefwatch returns a constructor of refwatch's manager with default options, or with client-go's reflector.
func newRefwatch(clientGo bool) func(context.Context, *rest.Config, string) (Contender, error) {
	return func(ctx context.Context, config *rest.Config, _ string) (Contender, error) {
		client, err := manager.ClientFor(config)
		if err != nil {
			return nil, err
		}
		secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{ClientGoReflector: clientGo})
		if err != nil {
			return nil, err
		}
		go func() { _ = secrets.Run(ctx) }() // ends with the process
		return secrets, nil
	}
}

func refwatchRegistrar() (Registrar, error) {
	return manager.New[*corev1.Secret](nothing{}, manager.PodSecrets)
}

// nothing is a store that does nothing.
type nothing struct{}

func (nothing) AddReference(string, string, types.UID)    {}
func (nothing) DeleteReference(string, string, types.UID) {}
func (nothing) Get(context.Context, string, string) (*corev1.Secret, error) {
	return nil, errEmpty
}

var errEmpty = errors.New("this store is empty")
