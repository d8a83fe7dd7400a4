// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// lag is a watch cache that has stopped at a version.
type lag struct {
	version uint64
	objects map[schema.GroupVersionResource]map[types.NamespacedName]object
	wait    time.Duration
	pending []publication // what the watches have not received, in order; guarded by store.mu
	ended   chan struct{}
}

// publication is an event of a table.
type publication struct {
	table *table
	event *event
}

// Lag stops the watch cache at the current version, as in a kube-apiserver that does not hear from etcd. Writes go on.
// Until [Server.CatchUp]:
//
//   - Watches send nothing new, and bookmarks at the old version. A plain watch at a newer version is silent.
//   - Reads and watches at "0", or not older than an old version, get the old state.
//   - Reads not older than a newer version, and WatchLists at a newer version or at "", wait for the watch cache. After
//     wait they get 504 with cause ResourceVersionTooLarge, a WatchList as an ERROR event. kube-apiserver waits three
//     seconds; with zero the error comes at once.
//   - Lists and gets at "" and lists of an exact version are consistent, as kube-apiserver reads them from etcd.
//
// If the cache lags already, Lag only changes wait.
func (s *Server) Lag(wait time.Duration) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.lag != nil {
		s.store.lag.wait = wait
		return
	}
	stopped := &lag{
		version: s.store.version, wait: wait, ended: make(chan struct{}),
		objects: map[schema.GroupVersionResource]map[types.NamespacedName]object{},
	}
	for gvr, t := range s.store.tables {
		stopped.objects[gvr] = maps.Clone(t.objects)
	}
	s.store.lag = stopped
}

// CatchUp ends a lag: the watches send what they have missed, and the reads that wait are served.
func (s *Server) CatchUp() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.lag == nil {
		return
	}
	for _, p := range s.store.lag.pending {
		p.table.deliverLocked(p.event)
	}
	s.store.endLagLocked()
}

func (s *store) endLagLocked() {
	if s.lag != nil {
		close(s.lag.ended)
		s.lag = nil
	}
}

// cacheLocked returns the state of the watch cache, at the version that cacheVersionLocked returns.
func (s *store) cacheLocked(t *table) map[types.NamespacedName]object {
	if s.lag == nil {
		return t.objects
	}
	return s.lag.objects[t.resource.gvr()]
}

func (s *store) cacheVersionLocked() uint64 {
	if s.lag == nil {
		return s.version
	}
	return s.lag.version
}

// awaitCache waits until a lagging watch cache catches up, if it has not reached version, but no longer than the lag's
// wait. The caller reads the cache afterwards and finds out.
func (s *store) awaitCache(ctx context.Context, version uint64) {
	s.mu.Lock()
	var ended chan struct{}
	var wait time.Duration
	if s.lag != nil && version > s.lag.version {
		ended, wait = s.lag.ended, s.lag.wait
	}
	s.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// consistent returns the version that a WatchList must not be older than. At "" that is the newest one, but the watch
// cache has it unless it lags.
func (s *store) consistent(requested string, version uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if requested == "" && s.lag != nil {
		return s.version
	}
	return version
}
