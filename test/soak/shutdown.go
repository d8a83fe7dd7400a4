// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

const (
	// shortLife is the most time that other managers run.
	shortLife = 5 * time.Second
	// shortCohorts is how many cohorts other managers have.
	shortCohorts = 5
	// shutDownWithin is how soon Run must return when its context has ended. It is less than the 15 s that a read, a
	// write and a PING may take, and enough for a machine that is busy with the start of a server. test/model wants a
	// second, in virtual time.
	shutDownWithin = 10 * time.Second
)

// shutDown runs other managers, with the pods of some cohorts, and stops them at a random time, until
// ctx ends. Each time they must end within shutDownWithin.
func (s *soak) shutDown(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil {
		if err := s.runShortly(ctx, random); err != nil {
			return err
		}
	}
	return nil
}

func (s *soak) runShortly(ctx context.Context, random *rand.Rand) error {
	options := watchOptions(objectcache.NewGate(objectcache.GateOptions{}))
	secrets, err := manager.NewSecrets(s.other, options)
	if err != nil {
		return err
	}
	configMaps, err := manager.NewConfigMaps(s.other, options)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(s.logless())
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return secrets.Run(running) })
	group.Go(func() error { return configMaps.Run(running) })
	for range shortCohorts {
		c := s.cohorts[random.IntN(len(s.cohorts))]
		spec := s.spec(&pod{name: c.pods[0].name, uid: types.UID(c.pods[0].name), objects: c.objects})
		secrets.RegisterPod(spec)
		configMaps.RegisterPod(spec)
	}
	pause(ctx, time.Duration(random.Int64N(int64(shortLife))))
	began := time.Now()
	cancel()
	err = group.Wait()
	if took := time.Since(began); took > shutDownWithin {
		s.violate("Run returned %v after its context had ended, want within %v", took, shutDownWithin)
	}
	s.shutDowns.Add(1)
	return err
}
