// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// State is a snapshot of a [Server]: its objects and its resourceVersion.
type State struct {
	version uint64
	objects map[schema.GroupVersionResource]map[types.NamespacedName]object
}

// ResourceVersion returns the version of the newest write in the state.
func (s *State) ResourceVersion() string { return formatVersion(s.version) }

// Snapshot returns the current state, for a later [Server.Restore]. It is cheap, because objects are shared.
func (s *Server) Snapshot() *State {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	state := &State{version: s.store.version, objects: map[schema.GroupVersionResource]map[types.NamespacedName]object{}}
	for gvr, t := range s.store.tables {
		state.objects[gvr] = maps.Clone(t.objects)
	}
	return state
}

// Restore sets the objects and the version counter back to state, drops the history, and ends all watches and lags, as
// an etcd restored from a backup and a restarted API server do. Later versions become future versions, and the server
// assigns them again to other writes.
func (s *Server) Restore(state *State) {
	s.store.restore(state, func(Request) bool { return false })
}

// RestoreKeeping is Restore, but leaves the watches open for which keep returns true, as an API server does that is not
// restarted. Those are silent until the version counter has reached the newest version before: they miss the state that
// was restored, and all writes until then.
func (s *Server) RestoreKeeping(state *State, keep func(Request) bool) {
	s.store.restore(state, keep)
}

func (s *store) restore(state *State, keep func(Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.version
	s.version = state.version
	for _, c := range s.caches {
		c.endLagLocked()
	}
	for gvr, t := range s.tables {
		t.objects = map[types.NamespacedName]object{}
		maps.Copy(t.objects, state.objects[gvr])
		t.history.compact(s.version)
		// End them under the same lock, so that no stream receives writes from before and after the restore.
		for _, watchers := range t.watchers {
			for w := range watchers {
				if keep(*w.request) {
					w.after = max(w.after, newest)
				} else {
					w.end()
				}
			}
		}
	}
}

// Compact drops the history, as an etcd compaction and a restart of the watch cache do. Lists and watches at older
// versions then get 410 Expired. Open watches continue.
func (s *Server) Compact() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, t := range s.store.tables {
		t.history.compact(s.store.version)
	}
}
