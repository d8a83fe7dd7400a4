// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// State is everything a [Server] held at one moment: its objects and its resourceVersion.
type State struct {
	version uint64
	objects map[string]map[types.NamespacedName]object
}

// ResourceVersion is the version of the newest write in the state.
func (s *State) ResourceVersion() string { return formatVersion(s.version) }

// Snapshot keeps the present state for a later [Server.Restore]. It is cheap: objects are shared.
func (s *Server) Snapshot() *State {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	state := &State{version: s.store.version, objects: map[string]map[types.NamespacedName]object{}}
	for name, t := range s.store.tables {
		state.objects[name] = maps.Clone(t.objects)
	}
	return state
}

// Restore brings objects and the version counter back to an earlier state and ends all watches, as an etcd
// restored from a copy and a restarted API server do: versions that have been handed out become versions of
// the future, and will be handed out again for other contents. The history begins anew.
func (s *Server) Restore(state *State) {
	s.store.restore(state)
}

func (s *store) restore(state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = state.version
	for name, t := range s.tables {
		t.objects = maps.Clone(state.objects[name])
		t.history.forget(s.version)
		// Ended under the same lock: no stream sees both a state before and a state after.
		for _, watchers := range t.watchers {
			for w := range watchers {
				w.end()
			}
		}
	}
}

// Compact forgets the history, as an etcd compaction does once the watch cache has been restarted: lists and
// watches at older versions are answered with 410 Expired from now on. Open watches go on.
func (s *Server) Compact() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, t := range s.store.tables {
		t.history.forget(s.store.version)
	}
}
