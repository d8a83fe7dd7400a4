// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// ownerSource is implemented by managers. They name the owners, of which a store has only
// the UIDs.
type ownerSource interface {
	Owners() iter.Seq[manager.Owner]
}

// noteSource is implemented by controllerruntime.Store.
type noteSource interface {
	Notes() []string
}

// collect returns the report without objects, and all objects, sorted by resource only.
func (o Options) collect(now time.Time) (Report, []*Object) {
	report := Report{
		Time: now, Objects: []Object{}, Gates: []Gate{}, Notes: []Note{}, Connections: o.Connections.Status(),
	}
	objects := collection{causes: map[string]*Cause{}}
	for _, resource := range slices.Sorted(maps.Keys(o.Sources)) {
		source := o.Sources[resource]
		owners := ownersByID(source)
		for status := range source.Statuses() {
			objects.add(resource, &status, owners, now)
		}
		if noted, ok := source.(noteSource); ok {
			for _, text := range noted.Notes() {
				report.Notes = append(report.Notes, Note{Resource: resource, Text: text})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Gates)) {
		status := o.Gates[name].Status()
		report.Gates = append(report.Gates, Gate{
			Name: name, Opening: status.Opening, Window: status.Window, Queued: status.Queued, Paused: status.Paused,
			Cause: textOf(status.Cause), CauseTime: status.CauseTime, OutageSince: status.OutageSince,
			NotParked: textOf(status.NotParked), Connections: newGateConnections(o.Gates[name].Connections()),
		})
	}
	report.Causes = causesOf(objects.causes)
	return report, objects.all
}

// newGateConnections returns nil if nothing was counted.
func newGateConnections(counts h2.Counts) *GateConnections {
	maps.DeleteFunc(counts.Resets, func(_ string, n uint64) bool { return n == 0 })
	maps.DeleteFunc(counts.GoAways, func(_ string, n uint64) bool { return n == 0 })
	maps.DeleteFunc(counts.Left, func(_ string, n uint64) bool { return n == 0 })
	if len(counts.Resets)+len(counts.GoAways)+len(counts.Left) == 0 {
		return nil
	}
	return &GateConnections{Resets: counts.Resets, GoAways: counts.GoAways, Left: counts.Left}
}

// ownersByID returns the owners of a manager by the UID that its store has for them.
func ownersByID(source Source) map[types.UID]Owner {
	named, ok := source.(ownerSource)
	if !ok {
		return nil
	}
	byID := map[types.UID]Owner{}
	for owner := range named.Owners() {
		byID[owner.ID()] = Owner(owner)
	}
	return byID
}

// collection holds many objects in few allocations.
type collection struct {
	all    []*Object
	free   []Object // for the next ones
	owners []Owner  // for theirs
	causes map[string]*Cause
}

// chunk is how many objects or owners are allocated at once.
const chunk = 1000

// add adds an object. It is sorted as a pointer: an Object has hundreds of bytes.
func (c *collection) add(resource string, status *objectcache.Status, owners map[types.UID]Owner, now time.Time) {
	if len(c.free) == 0 {
		c.free = make([]Object, chunk)
	}
	object := &c.free[0]
	c.free = c.free[1:]
	*object = Object{
		Resource: resource, Namespace: status.Key.Namespace, Name: status.Key.Name,
		Phase: status.Phase, Problem: problemOf(status), Stream: status.Stream, Reason: status.Reason, Parked: status.Parked,
		Synced: status.Synced, Exists: status.Exists, UID: status.UID, ResourceVersion: status.ResourceVersion,
		LastContact: status.LastContact, NotUpdatedSince: status.NotUpdatedSince, ChangedAt: status.ChangedAt, NextRead: status.NextRead, Waiting: textOf(status.Waiting), waits: waitingText(status.Waiting), AskedAt: status.AskedAt,
		Failures:  status.Failures,
		LastError: textOf(status.LastError), LastErrorTime: status.LastErrorTime,
		Owners: c.ownersOf(status, owners),
	}
	if !status.LastContact.IsZero() {
		object.AgeSeconds = new(now.Sub(status.LastContact).Seconds())
	}
	if object.Problem != "" {
		object.Cause = c.countCause(object.Problem, status)
	}
	c.all = append(c.all, object)
}

// countCause counts an object with a problem, and returns the key of its cause.
func (c *collection) countCause(problem Problem, status *objectcache.Status) string {
	cause := causeOf(problem, status)
	if known := c.causes[cause.Key]; known != nil {
		known.Objects++
		return known.Key
	}
	c.causes[cause.Key] = &cause
	return cause.Key
}

// ownersOf returns the owners of an object, by name if those of the source have one.
func (c *collection) ownersOf(status *objectcache.Status, named map[types.UID]Owner) []Owner {
	count := len(status.Owners)
	if len(c.owners) < count {
		c.owners = make([]Owner, max(chunk, count))
	}
	owners := c.owners[:count:count]
	c.owners = c.owners[count:]
	for i, id := range status.Owners {
		owner, ok := named[id]
		if !ok {
			owner = Owner{UID: id}
		}
		owners[i] = owner
	}
	return owners
}

func problemOf(status *objectcache.Status) Problem {
	switch {
	case status.Phase == objectcache.PhaseFailing:
		return Failing
	case !status.NotUpdatedSince.IsZero() && isServed(status.Phase):
		return NotUpdated
	case status.Stream == objectcache.StreamPolled && status.Failures > 0:
		return Polled
	case status.Synced && !status.Exists:
		return Absent
	case status.Synced, status.Phase == objectcache.PhasePending, status.Phase == objectcache.PhaseIdle, status.Phase == objectcache.PhaseStopped:
		return ""
	}
	return NotSynced
}

// isServed reports whether a Get has an answer in memory in a phase.
func isServed(phase objectcache.Phase) bool {
	return phase == objectcache.PhaseServing || phase == objectcache.PhaseNotUpdated || phase == objectcache.PhaseAbsent
}

// waitingText is textOf, with for how long an object waits.
func waitingText(err error) string {
	var waiting *reflector.WaitingError
	if !errors.As(err, &waiting) {
		return textOf(err)
	}
	switch left := time.Until(waiting.Until).Round(100 * time.Millisecond); {
	case left > 0:
		return fmt.Sprintf("%v (in %v)", err, left)
	case waiting.Queued > 0:
		return fmt.Sprintf("%v (%d)", err, waiting.Queued)
	}
	return err.Error()
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
