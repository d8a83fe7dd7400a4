// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Options configures a [Reflector]. The zero value is valid.
type Options struct {
	// Name identifies the reflector in logs. Default: "reflector".
	Name string
	// Resource is the kind of the objects as a schema.GroupResource writes it: "pods" or
	// "deployments.apps". Reflectors and stores of one Gate and resource share what one of
	// them learns about the resource: whether the server serves WatchList, how many streams
	// may open at a time, and whether the resource can be read at all. Default: "", which is a
	// resource like any other, but shares no reads.
	Resource string
	// OnChange is called after everything that can matter to a waiting caller: a
	// complete read, an event that reached the store, a silent stream that was verified, a
	// failed attempt, a watch that is allowed again, and an outage that other reflectors
	// have proved. It is not called for the regular end of a stream. It is called with no lock
	// held. Calls may overlap. It must return soon and must not wait for the reflector. It
	// must not end its goroutine (runtime.Goexit): the reflector would end, and others of the
	// Gate would miss an outage. Default: nothing.
	OnChange func()
	// Gate is an objectcache.Gate, which admits every attempt. Reflectors and stores that reach
	// one server as one user should share one. Default: a Gate of its own.
	Gate *reflector.Gate
	// ResyncPeriod is the time between two calls of the store's Resync. A DeltaFIFO and
	// a RealFIFO then deliver all objects that their consumer knows. The time begins
	// with Run and goes on when a stream ends. Resync is called only while a stream is
	// open: a period that ends before the first state, or between two streams, is
	// skipped. If Resync fails, the stream ends and another follows. A negative period
	// is as 0. Default: 0, which never calls Resync.
	ResyncPeriod time.Duration
	// ExpectedType is an object of the type that the store takes, as the reflector of
	// client-go gets one. Of an *unstructured.Unstructured with a kind, the group, version and
	// kind are compared too. An object or a bookmark of another type does not reach the
	// store: the read or the stream fails with cache.ErrMalformed, whose text has both
	// types, and another follows. client-go's reflector logs the event and skips it, and
	// does not check lists; the store would then miss a change, which nothing shows.
	// Default: nil, any type.
	ExpectedType runtime.Object
}

// Status is the state of a reflector at one moment. It holds no object data.
type Status struct {
	// Synced is set once a complete read has reached the store.
	Synced bool
	// ResourceVersion is the highest version seen since the last rollback of the
	// server: of a read, an event or a bookmark. Empty before the first.
	ResourceVersion string
	// LastContact is when the server last sent anything about the selection that the store
	// has: a complete read, an event or a bookmark. Zero before the first.
	LastContact time.Time
	// Streaming is set while a stream is open whose state has reached the store: it
	// delivers the changes.
	Streaming bool
	// Failures counts the attempts that failed since the last complete read; 0 means
	// that all is well.
	Failures int
	// LastError is the cause of the last failure, and LastErrorTime its time. Both are kept when all is well
	// again. If it is a 404, the path is not served: that says nothing about an object.
	LastError     error
	LastErrorTime time.Time
	// Waiting is why no request is under way; nil while one is, and while the stream is open.
	Waiting error
}

// Reflector keeps a store equal to one selection on the server. Make one with [New],
// then call Run once.
type Reflector struct{ reflector *reflector.Reflector }

// New returns a reflector that does nothing until Run. If the ListerWatcher says that it does not
// support WatchList (IsWatchListSemanticsUnSupported, as a fake clientset does that is wrapped by
// ToListWatcherWithWatchListSemantics of client-go), the reflector lists and then watches.
//
// A watch that does not close its channel within a second of its Stop is abandoned: a reflector
// waits for it no longer. Stop itself must not block. The stream has a goroutine, because the
// client of the ListerWatcher decodes it: it reads a frame of a JSON stream into memory whole,
// however long the frame is.
//
// The store is written from one goroutine at a time. Bookmark is called if it is a
// ReflectorBookmarkStore too, and UpdateResourceVersion if it is a ResourceVersionUpdater: with
// the version of each state, event and bookmark that the store has got.
func New(lw toolscache.ListerWatcher, store toolscache.ReflectorStore, options Options) *Reflector {
	return &Reflector{reflector.New(listwatch.FromListerWatcher(lw), plainStore{store}, reflector.Options{
		Name: options.Name, Resource: options.Resource, OnChange: options.OnChange, Gate: options.Gate,
		ResyncPeriod: options.ResyncPeriod, ExpectedType: options.ExpectedType,
	})}
}

// plainStore is the store of a program: it has the methods of client-go's interfaces, and none by which a store of
// this module talks to its reflector, whatever else the program has given it.
type plainStore struct{ toolscache.ReflectorStore }

// Bookmark implements toolscache.ReflectorBookmarkStore.
func (s plainStore) Bookmark(version string) error {
	if store, ok := s.ReflectorStore.(toolscache.ReflectorBookmarkStore); ok {
		return store.Bookmark(version)
	}
	return nil
}

// UpdateResourceVersion implements toolscache.ResourceVersionUpdater.
func (s plainStore) UpdateResourceVersion(version string) {
	if store, ok := s.ReflectorStore.(toolscache.ResourceVersionUpdater); ok {
		store.UpdateResourceVersion(version)
	}
}

// Run keeps the store equal to the selection until ctx ends. What it started has ended when it
// returns. A second call returns at once.
func (r *Reflector) Run(ctx context.Context) { r.reflector.Run(ctx) }

// Status returns the state of the reflector. While it waits because no reflector can
// reach the server, or the resource, the failure of the others is in its Status.
func (r *Reflector) Status() Status {
	s := r.reflector.Status()
	return Status{s.Synced, s.ResourceVersion, s.LastContact, s.Streaming, s.Failures, s.LastError, s.LastErrorTime, s.Waiting}
}
