// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/refwatch/refwatch/manager"
)

// Source is a source.Source that enqueues the owners of objects. Make one with
// [NewSource].
type Source struct {
	kind   string
	owners func(context.Context) iter.Seq[[]manager.Owner] // of each object that changes
}

// NewSource returns a source for builder.WatchesRawSource. It enqueues a request for each
// owner of the given kind when an object that the owner references changes. The kind may have
// its group, as in manager.Owner.Kind, and is compared with manager.Owner.IsKind:
//
//	secrets.SetReferences(manager.Owner{Kind: "Widget", Namespace: ns, Name: name}, keys...) // in the reconcile
//
// The request has the owner's namespace and name. There is one when the first state of an
// object is known, also that it is absent or that the server refuses it, and one for each
// change: manager.Manager.Changes says what is a change, and that none is lost. A
// reconcile may therefore return when manager.Manager.TryGet returns
// objectcache.ErrNotSynced. That error holds for an object that the server refuses as
// well: look for apierrors.IsForbidden first to report it.
//
// If for a minute all owners of objects that change are of other kinds, the source logs their kinds.
//
// It returns an error if refwatch's manager is nil or the kind is empty.
func NewSource[T client.Object](m *manager.Manager[T], ownerKind string) (*Source, error) {
	switch {
	case m == nil:
		return nil, errors.New("new source: the manager is nil: make one with manager.NewSecrets or manager.New")
	case ownerKind == "":
		return nil, errors.New("new source: the kind is empty: pass the Kind of the owners that SetReferences is called with")
	}
	return &Source{kind: ownerKind, owners: func(ctx context.Context) iter.Seq[[]manager.Owner] {
		return func(yield func([]manager.Owner) bool) {
			for _, owners := range m.Changes(ctx) {
				if !yield(owners) {
					return
				}
			}
		}
	}}, nil
}

// Start implements source.Source. Its goroutine ends with ctx, or when refwatch's manager
// stops. Each controller may start it once.
func (s *Source) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go s.enqueue(ctx, queue) // Source has no way to wait for it: a controller calls Start alone, and ends ctx
	return nil
}

func (s *Source) enqueue(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	others := &otherKinds{kinds: map[string]bool{}}
	defer others.stop()
	for owners := range s.owners(ctx) {
		for _, owner := range owners {
			if !owner.IsKind(s.kind) {
				others.add(ctx, s.kind, owner.Kind)
				continue
			}
			others.stop()
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}})
		}
	}
}

// String names the source in the log of a controller.
func (s *Source) String() string { return fmt.Sprintf("refwatch source of owners of kind %s", s.kind) }
