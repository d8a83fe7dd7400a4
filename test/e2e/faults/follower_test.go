// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/refwatch/refwatch/objectcache"
)

// follower keeps the newest change that it got of each object.
type follower struct {
	mu       sync.Mutex
	last     map[string]*corev1.Secret // nil: deleted
	got      int
	invented error // the first change that was none
}

// follow starts a follower that goes on until the test ends.
func (r *rig) follow() *follower {
	f := &follower{last: map[string]*corev1.Secret{}}
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for change := range r.store.Changes(ctx) {
			f.note(change)
		}
	}()
	r.Cleanup(func() { cancel(); <-done })
	return f
}

func (f *follower) note(change objectcache.Change[*corev1.Secret]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.last[change.Key.Name]
	if known && describe(before) == describe(change.Object) && f.invented == nil {
		f.invented = fmt.Errorf("%s: got %s twice", change.Key.Name, describe(before))
	}
	f.last[change.Key.Name] = change.Object
	f.got++
}

// agrees returns nil if the follower got the newest state of every name, and nothing twice.
func (f *follower) agrees(names []string, want map[string]*corev1.Secret) error {
	if err := f.newest(names, want); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.invented
}

// newest returns nil if the follower got the newest state of every name. It may have got it twice: in a new
// epoch the same version may mean something else (package cache).
func (f *follower) newest(names []string, want map[string]*corev1.Secret) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if got := describe(f.last[name]); got != describe(want[name]) {
			return fmt.Errorf("%s: followed to %s, want %s", name, got, describe(want[name]))
		}
	}
	return nil
}

func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got
}

// goesBack returns an error if the second of two states of an object is from before the first.
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
