// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
)

// 1,000 references and 100 streams: each object gets its updates within the documented
// time, and polls are as frequent as documented.
func TestMaxStreams(t *testing.T) {
	manyStreams(t)
	const count, most = 1000, 100
	inLimitBubble(t, count, objectcache.WatchOptions{MaxStreams: most, ImmutableRecheck: time.Minute}, func(t *testing.T, l *limitRig) {
		time.Sleep(pollBound)
		if got := l.phases(); got[objectcache.Watching] != most || got[objectcache.Polling] != count-most {
			t.Errorf("phases: got %v, want %d Watching and the others Polling", got, most)
		}
		sub := l.subscribe()
		sub.seen()
		for _, value := range []string{"1", "2"} {
			l.updateAll(value, l.names...)
			updated := time.Now()
			time.Sleep(pollBound)
			l.wantValues("in time", value, l.names...)
			if got := len(sub.seen()); got != count {
				t.Errorf("changes: got %d, want one for each object", got)
			}
			for status := range l.Statuses() {
				if status.Phase == objectcache.Polling && status.LastContact.Before(updated) {
					t.Errorf("last contact of %s: got %v, want one after the update", status.Key.Name, status.LastContact)
				}
			}
		}
		sub.stop()
		lists, watches, began := l.requests("list"), l.requests("watch"), time.Now()
		time.Sleep(2 * time.Minute)
		got, want := l.requests("list")-lists, (count-most)*int(time.Since(began)/(30*time.Second))
		if got < want*9/10 || got > want {
			t.Errorf("polls in %v: got %d, want about %d", time.Since(began), got, want)
		}
		if got := l.requests("watch") - watches; got != 0 {
			t.Errorf("watches opened: got %d, want none: nothing is used", got)
		}
		l.updateAll("new", l.names...)
		for i, name := range l.names[most/2 : 2*most] {
			l.AddReference(namespace, name, types.UID(fmt.Sprint(i)))
			l.wantValue("new owner", name, "new")
		}
		for _, name := range l.names[:most] { // the streams of immutable objects are for others
			l.seal(name, "sealed")
		}
		time.Sleep(2 * pollBound)
		if got := l.phases(); got[objectcache.Watching] != most || got[objectcache.Immutable] != most {
			t.Errorf("phases with immutable objects: got %v, want %d Watching and Immutable each", got, most)
		}
		time.Sleep(2 * time.Minute) // rechecks
	})
}

// Objects that are used take over the streams of those that are not, a bounded number in
// a time, and keep them.
func TestUsedObjectsGetStreams(t *testing.T) {
	manyStreams(t)
	const count, most = 40, 8
	inLimitBubble(t, count, objectcache.WatchOptions{MaxStreams: most}, func(t *testing.T, l *limitRig) {
		use := func(names []string, during time.Duration) {
			for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(5 * time.Second) {
				for _, name := range names {
					l.mustGet(name)
				}
			}
		}
		watching := func(names []string) (count int) {
			for _, name := range names {
				if l.phase(name) == objectcache.Watching {
					count++
				}
			}
			return count
		}
		for _, hot := range [][]string{l.names[count-most:], l.names[:most], l.names[most : 2*most]} {
			before := l.requests("watch")
			use(hot, 6*time.Minute)
			if got := watching(hot); got != most {
				t.Errorf("used objects with a stream: got %d, want all %d", got, most)
			}
			if got := l.requests("watch") - before; got > most {
				t.Errorf("watches opened: got %d, want at most one for each used object", got)
			}
		}
		before := l.requests("watch")
		use(l.names[most:2*most], 20*time.Minute)
		use(nil, 20*time.Minute)
		if got := l.requests("watch") - before; got > 2*most { // the server ends streams, too
			t.Errorf("watches opened while the same objects were used, or none: got %d", got)
		}
		before = l.requests("watch")
		use(l.names, 10*time.Minute) // all the same
		if got := l.requests("watch") - before; got > most {
			t.Errorf("watches opened while all objects were used: got %d", got)
		}
	})
}

// A stream that is free goes to a polled object. Objects that need no stream do not
// count.
func TestFreeStreams(t *testing.T) {
	inLimitBubble(t, 3, objectcache.WatchOptions{MaxStreams: 1, IdleTimeout: 2 * time.Hour}, func(t *testing.T, l *limitRig) {
		l.wantPhase("first", "tls-0", objectcache.Watching, 1)
		l.DeleteReference(namespace, "tls-0", "pod")
		time.Sleep(time.Second)
		next, last := "tls-1", "tls-2"
		if l.phase(last) == objectcache.Watching {
			next, last = last, next
		}
		l.wantPhase("next", next, objectcache.Watching, 1)
		l.wantPhase("last", last, objectcache.Polling, 0)
		l.create("fixed", immutable)
		l.seal(next, "sealed")
		for _, name := range []string{"fixed", "absent"} {
			l.AddReference(namespace, name, "pod")
		}
		time.Sleep(time.Second)
		l.wantPhase("immutable", next, objectcache.Immutable, 0)
		l.wantPhase("immutable", "fixed", objectcache.Immutable, 0)
		l.wantPhase("last", last, objectcache.Watching, 1)
		l.wantPhase("absent", "absent", objectcache.Polling, 0)
		l.AddReadOnceReference(namespace, last, "pod")
		l.DeleteReference(namespace, last, "pod")
		time.Sleep(time.Second)
		l.wantPhase("read-once", last, objectcache.ReadOnce, 0)
		l.wantPhase("absent", "absent", objectcache.Watching, 1)
		l.AddReadOnceReference(namespace, last, "other")
		l.mustGet(last)
		l.update(last, "new")
		l.AddReference(namespace, last, "pod") // the owner changes the kind back
		l.DeleteReference(namespace, last, "pod")
		l.wantPhase("ordinary again", last, objectcache.Polling, 0)
		l.wantValue("ordinary again", last, "new")
		time.Sleep(5 * time.Hour)
		for _, name := range []string{"absent", next, last} {
			l.wantPhase("idle", name, objectcache.Idle, 0)
		}
		before := len(l.server.Requests())
		time.Sleep(time.Hour)
		if got := len(l.server.Requests()) - before; got != 0 {
			t.Errorf("requests while all are idle: got %d, want none", got)
		}
		l.mustGet(last)
		l.wantPhase("used again", last, objectcache.Watching, 1)
	})
}
