// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"github.com/refwatch/refwatch/test/history"
)

// Recreate deletes random objects and creates them again, as fast as the server allows, until ctx ends.
func (l *Load) Recreate(ctx context.Context) error {
	var group errgroup.Group
	for range writers {
		group.Go(func() error {
			for ctx.Err() == nil {
				o := l.soak.objects[rand.IntN(len(l.soak.objects))]
				if err := l.soak.writing(o, func() error { return o.recreate(l.soak.ctx) }); err != nil {
					return err
				}
				l.Count("objects recreated at once", 1)
			}
			return nil
		})
	}
	return group.Wait()
}

// Grow writes objects with that many bytes, calls f, and writes them with their former sizes.
func (l *Load) Grow(count, size int, f func()) error {
	var group errgroup.Group
	group.SetLimit(writers)
	former := map[*object]int{}
	resize := func(o *object, size int) {
		group.Go(func() error {
			return l.soak.writing(o, func() error {
				o.size = size
				return o.put(l.soak.ctx)
			})
		})
	}
	for _, o := range l.soak.objects[:count] {
		former[o] = o.size
		resize(o, size)
	}
	err := group.Wait()
	if err == nil {
		f()
	}
	for o, size := range former {
		resize(o, size)
	}
	return errors.Join(err, group.Wait())
}

// Backup is a backup of the server.
type Backup struct {
	load   *Load
	call   history.Call
	exists []bool // each object
}

// Backup calls f, which makes a backup, while nobody writes.
func (l *Load) Backup(f func() error) (*Backup, error) {
	b := &Backup{load: l}
	return b, l.Quiet(func() error {
		b.call = l.soak.history.Snapshot()
		for _, o := range l.soak.objects {
			b.exists = append(b.exists, o.exists)
		}
		return f()
	})
}

// Restore calls stop, which stops the server, and then restore, which restores the backup, while nobody writes. A new
// epoch begins between the two.
func (b *Backup) Restore(stop func(), restore func() error) error {
	return b.load.Quiet(func() error {
		stop()
		b.call.End()
		for i, o := range b.load.soak.objects {
			o.exists = b.exists[i]
		}
		return restore()
	})
}

// DeleteAll deletes all objects. The caller is in [Load.Quiet].
func (l *Load) DeleteAll() error {
	var group errgroup.Group
	group.SetLimit(4 * writers)
	for _, o := range l.soak.objects {
		group.Go(func() error {
			if !o.exists {
				return nil
			}
			return o.remove(l.soak.ctx)
		})
	}
	return group.Wait()
}

// writing calls f, which writes an object, while nothing else does.
func (s *soak) writing(o *object, f func() error) error {
	s.quiet.RLock()
	defer s.quiet.RUnlock()
	o.writing.Lock()
	defer o.writing.Unlock()
	return f()
}

// recreate deletes the object and creates it again. The caller holds writing.
func (o *object) recreate(ctx context.Context) error {
	if o.exists {
		if err := o.remove(ctx); err != nil {
			return err
		}
	}
	return o.put(ctx)
}
