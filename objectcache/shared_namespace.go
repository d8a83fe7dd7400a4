// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// sharedRetry is the shortest pause before a shared stream is tried again; up to as
// much is added.
const sharedRetry = 5 * time.Minute

// sharedLinger is how long few objects of a namespace must need a stream before the shared one
// ends. A number that goes up and down costs no read of the namespace each time.
const sharedLinger = 5 * time.Minute

// Why a stream ends, for the log.
var (
	errShared = errors.New("a stream of the namespace brings the changes")
	errFew    = errors.New("few objects of the namespace need a stream")
	errGoexit = errors.New("a function of the program has ended the goroutine of the stream, as runtime.Goexit does")
)

// sharedNamespace is a namespace whose objects may share a stream. WatchStore.mu guards
// it.
type sharedNamespace[T cache.Object] struct {
	name    string
	counted int              // entries that need a stream
	stream  *sharedStream[T] // nil: each entry has its own
	retry   *timer           // nil, or no stream begins before it fires
	linger  *timer           // nil, or ends the stream when it fires
	told    bool             // the log says at level 0 that the namespace cannot be watched
}

// countStreamLocked counts an entry that needs a stream, and begins or ends the shared
// stream of its namespace.
func (s *WatchStore[T]) countStreamLocked(e *entry[T], needed bool) {
	if e.counted == needed || e.isAbsent() || !s.options.Shared.covers(e.key.Namespace) {
		return
	}
	n := s.shared[e.key.Namespace]
	if n == nil {
		n = &sharedNamespace[T]{name: e.key.Namespace}
		s.shared[n.name] = n
	}
	if e.counted = needed; needed {
		n.counted++
	} else {
		n.counted--
	}
	switch engine.Shares(n.counted, s.options.Shared.Threshold) {
	case engine.Share:
		s.stopLingeringLocked(n)
		s.startSharedLocked(n)
	case engine.KeepSharing:
		s.stopLingeringLocked(n)
	case engine.ShareNoLonger:
		s.lingerLocked(n)
	case engine.Unshare:
		s.endSharedLocked(n, errFew)
	}
	s.dropNamespaceLocked(n)
}

// countAllLocked counts all entries, before any of them is read.
func (s *WatchStore[T]) countAllLocked() {
	for e := range s.entries.all() {
		s.countStreamLocked(e, true)
	}
}

// lingerLocked ends the shared stream of a namespace in which few objects need one, unless
// there are more of them soon.
func (s *WatchStore[T]) lingerLocked(n *sharedNamespace[T]) {
	if n.stream == nil || n.linger != nil {
		return
	}
	n.linger = s.startTimerLocked(sharedLinger, func() time.Duration {
		s.endSharedLocked(n, errFew)
		return 0
	})
}

func (s *WatchStore[T]) stopLingeringLocked(n *sharedNamespace[T]) {
	s.stopTimerLocked(n.linger)
	n.linger = nil
}

// dropNamespaceLocked forgets a namespace without entries. One that has failed is kept
// until it may be tried again.
func (s *WatchStore[T]) dropNamespaceLocked(n *sharedNamespace[T]) {
	if n.counted == 0 && n.retry == nil {
		delete(s.shared, n.name)
	}
}

// leaveSharedLocked is called when an entry needs no stream any more.
func (s *WatchStore[T]) leaveSharedLocked(e *entry[T]) {
	if n := s.shared[e.key.Namespace]; n != nil && n.stream != nil {
		n.stream.members.Delete(e.key.Name)
	}
	s.countStreamLocked(e, false)
}

// startSharedLocked begins the shared stream of a namespace, unless it has one, or has
// to wait.
func (s *WatchStore[T]) startSharedLocked(n *sharedNamespace[T]) {
	if n.stream != nil || n.retry != nil || s.stopped {
		return
	}
	st := s.newSharedStream(n)
	n.stream = st
	for e := range s.entries.all() {
		if w := e.watch.Load(); w != nil && e.counted && e.key.Namespace == n.name {
			s.shareLocked(e, w, w.status())
		}
	}
	st.slow = s.startTimerLocked(sharedReadGrace, st.readIsSlowLocked)
	st.startLocked()
}

// endSharedLocked ends the shared stream of a namespace, if it has one. Its members get
// streams of their own, and are served the state that they have until those have synced.
func (s *WatchStore[T]) endSharedLocked(n *sharedNamespace[T], reason error) {
	st := n.stream
	if st == nil {
		return
	}
	s.stopLingeringLocked(n)
	n.stream, st.reason = nil, reason
	s.stopTimerLocked(st.slow)
	s.stopTimerLocked(st.grace)
	s.keepBackoffLocked(types.NamespacedName{Namespace: n.name}, st.reflector)
	st.reflector.Stop()
	if !errors.Is(reason, errFew) && !s.stopped {
		n.retry = s.startTimerLocked(sharedRetry+rand.N(sharedRetry), func() time.Duration {
			if !st.gone { // a function of the program blocks, and would again
				return sharedRetry + rand.N(sharedRetry)
			}
			n.retry = nil
			if engine.Shares(n.counted, s.options.Shared.Threshold) == engine.Share {
				s.startSharedLocked(n)
			}
			s.dropNamespaceLocked(n)
			return 0
		})
	}
	for _, m := range st.members.Range {
		e := m.(*sharedEntry[T]).entry
		if w := e.watch.Load(); w != nil && w.shared == st {
			s.startLocked(e)
			e.wakeLocked()
		}
	}
}

// stopSharedLocked ends all shared streams.
func (s *WatchStore[T]) stopSharedLocked() {
	for _, n := range s.shared {
		s.stopTimerLocked(n.retry)
		s.endSharedLocked(n, errStopping)
	}
}

// SharedOptions makes the objects of a namespace share one stream, which lists and
// watches the whole namespace. Objects that no owner references are dropped by their
// names before they are decoded, and not kept. The zero value shares nothing.
//
// Share only where the user may list and watch every object of the kind in the
// namespace: the least permission, which access.Roles returns, does not allow it. If
// the server refuses, or the shared stream fails, each object gets a stream of its own
// again, and the shared stream is tried again after 5 to 10 minutes.
//
// A reference begins with a stream of its own, and joins the shared stream when both
// have read up to the same version, which takes one to three minutes. References that are
// added before the first request of a shared stream share it at once. Get and Changes see
// no difference, but that calls of a function of WithTransform add up: see there. Immutable objects
// have no stream, as without sharing.
type SharedOptions struct {
	// Namespaces are those whose objects share a stream. Default: all, if Allowed is
	// set, else none.
	Namespaces []string
	// Allowed is asked before a stream of a namespace is opened. It may call
	// access.AllowedNamespace, and take as long as ctx lasts. If it returns false or
	// an error, each object has a stream of its own, and Allowed is asked again after 5
	// to 10 minutes. The namespace of cluster-scoped kinds is empty. Default: the
	// Namespaces are allowed.
	Allowed func(ctx context.Context, namespace string) (bool, error)
	// Threshold is how many objects of a namespace need a stream before they share one.
	// With fewer than half of that for five minutes, each has its own again. With none, the
	// shared stream ends at once. Default: 50, whose streams cost kube-apiserver about 3 MB.
	Threshold int
}

const defaultSharedThreshold = 50

// enabled reports whether any namespace is shared.
func (o *SharedOptions) enabled() bool { return len(o.Namespaces) > 0 || o.Allowed != nil }

// covers reports whether a namespace is one to share, if any is.
func (o *SharedOptions) covers(namespace string) bool {
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace)
}

// validate returns an error that names each field with an invalid value.
func (o *SharedOptions) validate() error {
	var problems []error
	for _, namespace := range o.Namespaces {
		for _, problem := range validation.ValidateNamespaceName(namespace, false) {
			problems = append(problems, fmt.Errorf("WatchOptions.Shared.Namespaces holds %q: %s", namespace, problem))
		}
	}
	if o.Threshold > 0 && !o.enabled() {
		problems = append(problems, errors.New("WatchOptions.Shared has a Threshold, and neither Namespaces nor Allowed: set one of them"))
	}
	if o.Threshold < 0 {
		problems = append(problems, fmt.Errorf("WatchOptions.Shared.Threshold is %d: 0 means the default, else set a positive number", o.Threshold))
	}
	return errors.Join(problems...)
}

var errNotShareable = errors.New("WatchOptions.Shared needs a REST client: " +
	"the objects of FromSource are decoded before they can be dropped")

// checkShareable returns an error if the objects of a resource cannot share a stream,
// and the options ask for it.
func (k *kind[T]) checkShareable(o *SharedOptions) error {
	if !o.enabled() || k.HasNamespaceSource() {
		return nil
	}
	return fmt.Errorf("resource %q: %w", k.resource, errNotShareable)
}
