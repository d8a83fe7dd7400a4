// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// subscriber reads Changes and keeps the last state of each object.
type subscriber struct {
	mu       sync.Mutex
	last     map[string]*corev1.Secret // nil: absent
	count    int                       // of changes
	repeated error                     // for the first change that repeats the last state
}

// subscribe starts a subscriber, which runs until the test ends.
func (r *rig) subscribe() *subscriber {
	s := &subscriber{last: map[string]*corev1.Secret{}}
	e2e.Run(r, func(ctx context.Context) error {
		for change := range r.store.Changes(ctx) {
			s.add(change)
		}
		return nil
	})
	return s
}

// add records a change, but not a refusal: the state is not known then.
func (s *subscriber) add(change objectcache.Change[*corev1.Secret]) {
	if change.Err != nil && !apierrors.IsNotFound(change.Err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.last[change.Key.Name]
	if ok && describe(before) == describe(change.Object) && s.repeated == nil {
		s.repeated = fmt.Errorf("%s: got %s twice", change.Key.Name, describe(before))
	}
	s.last[change.Key.Name] = change.Object
	s.count++
}

// agrees returns nil if the subscriber got the newest state of every name, and no state twice.
func (s *subscriber) agrees(names []string, want map[string]*corev1.Secret) error {
	if err := s.newest(names, want); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repeated
}

// newest returns nil if the subscriber got the newest state of every name. It may have got a state twice: in a new
// epoch the same version may be another state (package states).
func (s *subscriber) newest(names []string, want map[string]*corev1.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if got := describe(s.last[name]); got != describe(want[name]) {
			return fmt.Errorf("%s: last change: got %s, want %s", name, got, describe(want[name]))
		}
	}
	return nil
}

func (s *subscriber) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// goesBack returns an error if after is an older state of an object than before.
func goesBack(before, after *corev1.Secret) error {
	order, err := resourceversion.CompareResourceVersion(after.ResourceVersion, before.ResourceVersion)
	if err != nil {
		return fmt.Errorf("%s: %w", after.Name, err)
	}
	if order < 0 {
		return fmt.Errorf("%s: got %s after %s", after.Name, describe(after), describe(before))
	}
	return nil
}
