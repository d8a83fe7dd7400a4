// SPDX-License-Identifier: Apache-2.0

package history

import "hash/maphash"

// addWriteLocked handles a write, a backup or its restore.
func (c *Checker) addWriteLocked(e Event) {
	switch e.Op {
	case BeginWrite:
		write := entry{digest: maphash.String(seed, e.Digest), flags: flags{deleted: e.Deleted, pending: true}}
		o := c.objectLocked(e.Object)
		c.calls[e.Call] = &begunWrite{o, o.append(write)}
	case EndWrite:
		if w, ok := begunLocked[*begunWrite](c, e); ok {
			c.endWriteLocked(w.object, w.position, e)
		}
	case Written:
		o := c.objectLocked(e.Object)
		c.commitLocked(o, o.append(entry{flags: flags{deleted: e.Deleted}}), e)
	case Snapshotted:
		c.calls[e.Call] = e.Call
		for _, o := range c.objects {
			if o.backups == nil {
				o.backups = map[uint64]entry{}
			}
			o.backups[e.Call] = *o.at(o.newest)
		}
	case RolledBack:
		if backup, ok := begunLocked[uint64](c, e); ok {
			c.restoreLocked(backup)
		}
	}
}

// begunWrite is a write that has begun.
type begunWrite struct {
	object   *object
	position int // in the entries of object
}

func (c *Checker) endWriteLocked(o *object, position int, e Event) {
	if position < o.base {
		return // too many writes have begun since
	}
	w := o.at(position)
	if w.pending = false; !e.Failed {
		c.commitLocked(o, position, e)
		return
	}
	if w.failed = true; w.known {
		rule := "S1"
		if w.deleted {
			rule = "S4"
		}
		c.violateLocked(rule, o.name, "a reader returned %v, which the server did not commit", w)
		o.read = min(o.read, o.newest)
	} else if position == o.end()-1 {
		o.entries = o.entries[:len(o.entries)-1]
	}
}

// commitLocked handles a write that the server has committed.
func (c *Checker) commitLocked(o *object, position int, e Event) {
	w := o.at(position)
	w.at = c.now.UnixNano()
	o.committed(position)
	o.immutable = o.immutable || e.Immutable
	if w.deleted {
		return
	}
	if w.known && w.state != e.State.hash() {
		c.violateLocked("S1", o.name, "the server returned %v, and a reader had returned another state of this write", e.State)
	}
	w.identify(e.State)
}

// restoreLocked begins an epoch: each object has the state in the backup again.
func (c *Checker) restoreLocked(backup uint64) {
	for _, o := range c.objects {
		restored, ok := o.backups[backup]
		if !ok {
			restored = entry{flags: flags{deleted: true}} // the object was created later
		}
		delete(o.backups, backup)
		if restored.same(o.at(o.newest)) {
			continue // it is as it was
		}
		restored.at = c.now.UnixNano()
		o.committed(o.append(restored))
	}
}
