// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing/synctest"

	"github.com/refwatch/refwatch/objectcache"
)

// What phase returns for an object whose changes arrive: also how they do, or why none do.
const (
	servingNamed     = objectcache.PhaseServing + ", " + objectcache.Phase(objectcache.StreamNamed)
	servingImmutable = objectcache.PhaseServing + ", " + objectcache.Phase(objectcache.ReasonImmutable)
	servingOnDemand  = objectcache.PhaseServing + ", " + objectcache.Phase(objectcache.ReasonOnDemand)
	absentNamed      = objectcache.PhaseAbsent + ", " + objectcache.Phase(objectcache.StreamNamed)
)

func (r *rig) phase(name string) objectcache.Phase {
	synctest.Wait()
	status, _ := r.Status(namespace, name)
	known := status.Phase == objectcache.PhaseNotUpdated || isUpdated(status)
	switch {
	case status.Stream == objectcache.StreamNone && known && status.Reason == "",
		status.Stream != objectcache.StreamNone && status.Reason != "":
		r.t.Errorf("status of %s: got phase %s, stream %s and reason %q", name, status.Phase, status.Stream, status.Reason)
	case !isUpdated(status):
	case status.Reason != "":
		return status.Phase + ", " + objectcache.Phase(status.Reason)
	default:
		return status.Phase + ", " + objectcache.Phase(status.Stream)
	}
	return status.Phase
}

// isUpdated reports whether the state of an object, or its absence, is served, and its changes arrive.
func isUpdated(status objectcache.Status) bool {
	return (status.Phase == objectcache.PhaseServing || status.Phase == objectcache.PhaseAbsent) && status.NotUpdatedSince.IsZero()
}

// wantPhase checks the phase of an object and how many streams it has.
func (r *rig) wantPhase(when, name string, phase objectcache.Phase, streams int) {
	r.t.Helper()
	if got, open := r.phase(name), r.streams(name); got != phase || open != streams {
		r.t.Errorf("%s: got phase %s and %d streams, want %s and %d", when, got, open, phase, streams)
	}
}
