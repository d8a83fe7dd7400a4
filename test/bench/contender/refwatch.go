// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/clients"
)

// newRefwatch makes refwatch's manager.
func newRefwatch(ctx context.Context, config *rest.Config, _ string) (Contender, error) {
	return runRefwatch(ctx, config, objectcache.WatchOptions{})
}

// newRefwatchRecent makes refwatch's manager with the default of its cache for controller-runtime.
func newRefwatchRecent(ctx context.Context, config *rest.Config, _ string) (Contender, error) {
	return runRefwatch(ctx, config, objectcache.WatchOptions{FirstReadMaxAge: time.Second})
}

func runRefwatch(ctx context.Context, config *rest.Config, options objectcache.WatchOptions) (Contender, error) {
	client, err := manager.ClientFor(config)
	if err != nil {
		return nil, err
	}
	secrets, err := manager.NewSecrets(client, options)
	if err != nil {
		return nil, err
	}
	go func() { _ = secrets.Run(ctx) }() // ends with the process
	return secrets, nil
}

// newRefwatchNetHTTP makes refwatch's manager with a client whose streams net/http reads.
func newRefwatchNetHTTP(ctx context.Context, config *rest.Config, namespace string) (Contender, error) {
	config, err := clients.NetHTTP(config)
	if err != nil {
		return nil, err
	}
	return newRefwatch(ctx, config, namespace)
}

// newRefwatchFollowed makes refwatch's manager with ten loops over Changes, as ten controllers have.
func newRefwatchFollowed(ctx context.Context, config *rest.Config, namespace string) (Contender, error) {
	c, err := newRefwatch(ctx, config, namespace)
	if err != nil {
		return nil, err
	}
	for range 10 {
		go func() {
			for range c.(*manager.Manager[*corev1.Secret]).Changes(ctx) {
			}
		}()
	}
	return c, nil
}

func refwatchRegistrar() (Registrar, error) {
	return manager.New[*corev1.Secret](nothing{}, manager.VisitPodSecretNames)
}

// nothing is a store that does nothing.
type nothing struct {
	objectcache.Store[*corev1.Secret]
}

func (nothing) AddReference(string, string, types.UID)    {}
func (nothing) DeleteReference(string, string, types.UID) {}
