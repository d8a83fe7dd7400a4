// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// watchCache is that of one server. It has the state of the store, unless it lags.
type watchCache struct {
	*store

	lag *lag // nil: it is up to date; guarded by store.mu
}

// newCache adds a watch cache.
func (s *store) newCache() *watchCache {
	c := &watchCache{store: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches = append(s.caches, c)
	return c
}

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

// Lag stops the watch cache of this server at the current version, as in a kube-apiserver that does not hear from etcd.
// Writes go on. Until [Server.CatchUp]:
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
	if s.cache.lag != nil {
		s.cache.lag.wait = wait
		return
	}
	stopped := &lag{
		version: s.store.version, wait: wait, ended: make(chan struct{}),
		objects: map[schema.GroupVersionResource]map[types.NamespacedName]object{},
	}
	for gvr, t := range s.store.tables {
		stopped.objects[gvr] = maps.Clone(t.objects)
	}
	s.cache.lag = stopped
}

// CatchUp ends a lag: the watches send what they have missed, and the reads that wait are served.
func (s *Server) CatchUp() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.cache.lag == nil {
		return
	}
	for _, p := range s.cache.lag.pending {
		p.table.deliverLocked(s.cache, p.event)
	}
	s.cache.endLagLocked()
}

func (c *watchCache) endLagLocked() {
	if c.lag != nil {
		close(c.lag.ended)
		c.lag = nil
	}
}

// cacheLocked returns the state of the watch cache, at the version that cacheVersionLocked returns.
func (c *watchCache) cacheLocked(t *table) map[types.NamespacedName]object {
	if c.lag == nil {
		return t.objects
	}
	return c.lag.objects[t.resource.gvr()]
}

func (c *watchCache) cacheVersionLocked() uint64 {
	if c.lag == nil {
		return c.version
	}
	return c.lag.version
}

// awaitCache waits until a lagging watch cache catches up, if it has not reached version, but no longer than the lag's
// wait. The caller reads the cache afterwards and finds out.
func (c *watchCache) awaitCache(ctx context.Context, version uint64) {
	c.mu.Lock()
	var ended chan struct{}
	var wait time.Duration
	if c.lag != nil && version > c.lag.version {
		ended, wait = c.lag.ended, c.lag.wait
	}
	c.mu.Unlock()
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
func (c *watchCache) consistent(requested string, version uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if requested == "" && c.lag != nil {
		return c.version
	}
	return version
}
