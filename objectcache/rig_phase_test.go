// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// names returns n names: s0, s1 and so on.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("s%d", i))
	}
	return all
}

// createAll creates an object for each name.
func (r *rig) createAll(names ...string) {
	for _, name := range names {
		r.create(name, func(s *corev1.Secret) { s.Data["password"] = []byte("0") })
	}
}

// reference adds a reference to each name.
func (r *rig) reference(names ...string) {
	for _, name := range names {
		r.AddReference(namespace, name, "pod")
	}
	synctest.Wait()
}

// wantValues checks what Get returns for each name.
func (r *rig) wantValues(when, value string, names ...string) {
	r.t.Helper()
	synctest.Wait()
	for _, name := range names {
		if got, err := r.get(name, time.Second); err != nil || string(got.Data["password"]) != value {
			r.t.Errorf("%s: Get %s: got %v, %v, want %q", when, name, got, err, value)
		}
	}
}
