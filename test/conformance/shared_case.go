// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// sharedStream references objects before Run, so that their first read is that of the namespace: to join later takes
// minutes of bookmarks.
func sharedStream(s *suite) {
	const count = 8
	options := s.options()
	options.Shared = objectcache.SharedOptions{Namespaces: []string{s.namespace}, Threshold: count}
	store, err := objectcache.NewWatchStore(resource.Secrets(s.client), options)
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint("tls-", i))
		s.create(names[i], "1")
		store.AddReference(s.namespace, names[i], "pod")
	}
	s.create("foreign", "1")
	s.start(store)
	for _, name := range names {
		s.wantObject(store, name, "1")
	}
	s.wantStreams("all share one", 1)
	wait := s.observeChanges(store)
	change := func(value string, names ...string) {
		for _, name := range names {
			s.update(name, value)
			wait(name, value)
			s.wantObject(store, name, value)
		}
	}
	s.update("foreign", "2")
	change("2", names...)
	s.remove(names[0])
	wait(names[0], "")
	s.wantNotFound(store, names[0])
	s.create(names[0], "3")
	wait(names[0], "3")
	s.breakStreams()
	change("4", names...)
	for _, name := range names[3:] {
		store.DeleteReference(s.namespace, name, "pod")
	}
	s.wantStreams("three still share one, for some minutes", 1)
	change("5", names[:3]...)
	for _, name := range names[:3] {
		store.DeleteReference(s.namespace, name, "pod")
	}
	s.wantStreams("no reference", 0)
	for _, name := range names[:3] {
		store.AddReference(s.namespace, name, "pod")
	}
	s.wantStreams("each of three has its own", 3)
	change("6", names[:3]...)
	if status, _ := store.Status(s.namespace, names[0]); status.Phase != objectcache.PhaseServing {
		s.Errorf("phase: got %s, want %s", status.Phase, objectcache.PhaseServing)
	}
	s.wantNotRegistered(store, "foreign")
}
