// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/test/history"
)

// writers is how many writes are sent at the same time.
const writers = 8

// sizeOf returns the bytes of an object of a kind: of ten objects six are small, and one of a hundred has 100 KiB.
func sizeOf(i int) int {
	switch {
	case i%100 == 99:
		return 100 << 10
	case i%10 == 9:
		return 10 << 10
	case i%10 >= 6:
		return 1 << 10
	default:
		return 100
	}
}

// object is a Secret or a ConfigMap.
type object struct {
	history.Object
	kind kind
	name string
	size int

	immutable bool // deleted and created again instead of updated

	references atomic.Int32 // of pods

	writing sync.Mutex // held during a write, as the writes to an object follow each other
	writes  int        // the number of the newest write
	exists  bool       // after the newest committed write
}

// put creates the object, or updates it if it exists. The caller holds writing.
func (o *object) put(ctx context.Context) error {
	if o.exists && o.immutable {
		if err := o.remove(ctx); err != nil {
			return err
		}
	}
	o.writes++
	digest := digestOf(o.writes)
	write := o.BeginWrite(digest)
	s, err := o.kind.put(ctx, o, !o.exists)
	if err != nil {
		return o.settle(ctx, write, digest)
	}
	o.exists = true
	write.Commit(s)
	return nil
}

// remove deletes the object, which exists. The caller holds writing.
func (o *object) remove(ctx context.Context) error {
	write := o.BeginDelete()
	if err := o.kind.delete(ctx, o.name); err != nil {
		return o.settle(ctx, write, "")
	}
	o.exists = false
	write.Commit(history.State{})
	return nil
}

// settle finds out whether a write that has failed was committed. It waits until the server answers. The digest of a
// deletion is empty.
func (o *object) settle(ctx context.Context, write history.Write, digest string) error {
	for pause(ctx, retryInterval) { // a server that has died may have sent the write to etcd
		s, err := o.kind.read(ctx, o.name)
		if err != nil && !apierrors.IsNotFound(err) {
			continue
		}
		o.exists = err == nil
		if s.Digest == digest { // of no object, it is empty too
			write.Commit(s)
		} else {
			write.Fail()
		}
		return nil
	}
	return fmt.Errorf("%s: %w", o.name, ctx.Err())
}

// writeAll writes all objects for which due returns true.
func (s *soak) writeAll(ctx context.Context, due func(*object) bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4 * writers)
	for _, o := range s.objects {
		if due(o) {
			group.Go(func() error { return s.writing(o, func() error { return o.put(ctx) }) })
		}
	}
	return group.Wait()
}

// write writes random objects until ctx ends: of ten writes one is a deletion. A deleted object is created again soon.
func (s *soak) write(ctx context.Context, random *rand.Rand) error {
	var deleted []*object
	return s.repeat(ctx, s.options.Updates/writers, func() error {
		o := s.objects[random.IntN(len(s.objects))]
		if len(deleted) > 10 {
			o, deleted = deleted[0], deleted[1:]
		}
		s.quiet.RLock()
		defer s.quiet.RUnlock()
		if !o.writing.TryLock() {
			return nil
		}
		defer o.writing.Unlock()
		s.writes.Add(1)
		if o.exists && random.IntN(10) == 0 {
			deleted = append(deleted, o)
			return o.remove(s.ctx)
		}
		return o.put(s.ctx)
	})
}
