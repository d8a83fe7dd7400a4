// SPDX-License-Identifier: Apache-2.0

package admission

// census counts the members of the server, or of one resource.
type census struct {
	members int // all, also those that rest
	resting int // those that rest: they make no attempts, so they fail and succeed with none
	synced  int // members that have synced and do not rest
}

// active returns how many members do not rest.
func (c *census) active() int { return c.members - c.resting }

// isOnly reports whether there is one member alone.
func (c *census) isOnly() bool { return c.members == 1 }

// count counts n members that do not rest.
func (c *census) count(n int, synced bool) {
	c.members += n
	if synced {
		c.synced += n
	}
}

// rest counts n members as resting, or -n as resting no longer.
func (c *census) rest(n int, synced bool) {
	c.resting += n
	if synced {
		c.synced -= n
	}
}
