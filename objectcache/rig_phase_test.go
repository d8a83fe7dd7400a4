// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing/synctest"

	"github.com/refwatch/refwatch/objectcache"
)

// What phase returns for an object that is ready: also how its changes arrive, or why none do.
const (
	readyNamed     = objectcache.PhaseReady + ", " + objectcache.Phase(objectcache.StreamNamed)
	readyShared    = objectcache.PhaseReady + ", " + objectcache.Phase(objectcache.StreamShared)
	readyImmutable = objectcache.PhaseReady + ", " + objectcache.Phase(objectcache.ReasonImmutable)
	readyReadOnce  = objectcache.PhaseReady + ", " + objectcache.Phase(objectcache.ReasonReadOnce)
	readyOnDemand  = objectcache.PhaseReady + ", " + objectcache.Phase(objectcache.ReasonOnDemand)
)

func (r *rig) phase(name string) objectcache.Phase {
	synctest.Wait()
	status, _ := r.Status(namespace, name)
	switch {
	case status.Stream == objectcache.StreamNone && status.Phase == objectcache.PhaseReady && status.Reason == "",
		status.Stream != objectcache.StreamNone && status.Reason != "":
		r.t.Errorf("status of %s: got phase %s, stream %s and reason %q", name, status.Phase, status.Stream, status.Reason)
	case status.Phase != objectcache.PhaseReady:
	case status.Reason != "":
		return status.Phase + ", " + objectcache.Phase(status.Reason)
	default:
		return status.Phase + ", " + objectcache.Phase(status.Stream)
	}
	return status.Phase
}

// wantPhase checks the phase of an object and how many streams it has.
func (r *rig) wantPhase(when, name string, phase objectcache.Phase, streams int) {
	r.t.Helper()
	if got, open := r.phase(name), r.streams(name); got != phase || open != streams {
		r.t.Errorf("%s: got phase %s and %d streams, want %s and %d", when, got, open, phase, streams)
	}
}
