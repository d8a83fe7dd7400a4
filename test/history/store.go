// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

// store is a store whose calls are recorded.
type store[T cache.Object] struct {
	objectcache.Store[T]
	recorder *Recorder
	prefix   string
}

// NewStore returns a store that records the calls of another one, apart from those with demands (GetWithOptions). The
// names of its objects begin with the resource: "secrets/default/tls". Pass it to manager.New to record what a manager
// does.
//
// A rollback of the server is a violation of S2 for each Get after it: the recorder cannot know of one. The history has
// no writes, no requests, no streams and no dials. So set [Options].IncompleteWrites, unless the test reports all
// writes with [Object.Written], and leave [Limits].Attempt at zero. For a store with an IdleTimeout or a MaxStaleness,
// and for a DirectStore, set [Limits].Forgets.
//
// The history has no object data, and no digest that reveals any.
func NewStore[T cache.Object](wrapped objectcache.Store[T], resource string, recorder *Recorder) objectcache.Store[T] {
	return &store[T]{wrapped, recorder, resource + "/"}
}

func (s *store[T]) object(namespace, name string) Object {
	return s.recorder.Object(s.prefix + namespace + "/" + name)
}

// AddReference implements objectcache.References.
func (s *store[T]) AddReference(namespace, name string, referencedFrom types.UID) {
	defer s.object(namespace, name).BeginReference(string(referencedFrom)).End()
	s.Store.AddReference(namespace, name, referencedFrom)
}

// DeleteReference implements objectcache.References.
func (s *store[T]) DeleteReference(namespace, name string, referencedFrom types.UID) {
	defer s.object(namespace, name).BeginRelease(string(referencedFrom)).End()
	s.Store.DeleteReference(namespace, name, referencedFrom)
}

// Get implements objectcache.Reader.
func (s *store[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	get := s.object(namespace, name).BeginGet(ctx)
	object, err := s.Store.Get(ctx, namespace, name)
	ended(get, object, err)
	return object, err
}

// TryGet implements objectcache.Reader.
func (s *store[T]) TryGet(namespace, name string) (T, error) {
	get := s.object(namespace, name).BeginTryGet()
	object, err := s.Store.TryGet(namespace, name)
	ended(get, object, err)
	return object, err
}

// Changes implements objectcache.Store.
func (s *store[T]) Changes(ctx context.Context) iter.Seq2[objectcache.Change[T], []types.UID] {
	return func(yield func(objectcache.Change[T], []types.UID) bool) {
		follower := s.recorder.Follow()
		defer follower.End()
		for change, owners := range s.Store.Changes(ctx) {
			follower.Yield(s.object(change.Key.Namespace, change.Key.Name), stateOf(change.Object, change.Err), change.Err)
			if !yield(change, owners) {
				return
			}
		}
	}
}

// ended records what a Get has returned. That the store was stopped says nothing about the object.
func ended[T cache.Object](get Get, object T, err error) {
	if errors.Is(err, objectcache.ErrStopped) {
		get.Return(State{}, context.Canceled)
		return
	}
	get.Return(stateOf(object, err), err)
}

// stateOf returns the state of an object, unless there is an error.
func stateOf[T cache.Object](object T, err error) State {
	if err != nil {
		return State{}
	}
	return StateOf(object)
}
