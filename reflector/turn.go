// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"container/list"
	"context"
	"time"
)

// turn is one opening of a stream, or one list. It waits in a queue of its gate,
// then begins, then ends.
type turn struct {
	gate   *Gate
	owner  uint64        // of which reflector
	faulty bool          // who failed before while others did not
	begun  chan struct{} // closed when it begins, or is given up

	// Guarded by Gate.mu.
	in      *list.List // that holds it; nil when it does not count
	element *list.Element
	begunAt time.Time
	ended   bool
}

// queue has a turn wait.
func (g *Gate) queue(t *turn, urgent bool) *turn {
	t.gate, t.begun = g, make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if urgent {
		t.enterLocked(&g.urgent)
	} else {
		t.enterLocked(&g.others)
	}
	g.admitLocked()
	return t
}

func (t *turn) enterLocked(queue *list.List) {
	t.in, t.element = queue, queue.PushBack(t)
}

func (t *turn) leaveLocked() {
	if t.in != nil {
		t.in.Remove(t.element)
		t.in, t.element = nil, nil
	}
}

// urge lets a turn that still waits go before all that nobody waits for.
func (t *turn) urge() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	if t.in == &t.gate.others {
		t.leaveLocked()
		t.enterLocked(&t.gate.urgent)
		t.gate.admitLocked()
	}
}

// wait returns when the turn begins, or was given up. When ctx ends, wait gives
// it up.
func (t *turn) wait(ctx context.Context) {
	select {
	case <-t.begun:
	case <-ctx.Done():
		t.giveUp()
	}
}

// giveUp ends a turn of which nothing is to be learnt. Nothing happens if it has
// ended.
func (t *turn) giveUp() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	t.endLocked()
	t.gate.admitLocked()
}

// end ends a turn by how it went: nil or an answer of the server, or the reason
// why there is none. It returns how many turns were answered so far. Nothing
// happens if the turn has ended.
func (t *turn) end(err error) (answers uint64) {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	probe := g.outage.probe == t
	if t.endLocked() {
		g.learnLocked(t, probe, err)
		g.admitLocked()
	}
	return g.answers
}

// endLocked tells whether the turn had not ended before.
func (t *turn) endLocked() bool {
	if t.ended {
		return false
	}
	t.ended = true
	if t.in != nil && t.in != &t.gate.begun {
		close(t.begun)
	}
	t.leaveLocked()
	if t.gate.outage.probe == t {
		t.gate.outage.probe = nil
	}
	return true
}
