// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// verifyIfSilent begins the verification of a synced stream that has been silent
// for too long. A goroutine of the session does it, for the stream's own is
// blocked.
func (r *Reflector) verifyIfSilent() {
	r.mu.Lock()
	s := r.session
	silent := s != nil && s.synced && !s.verifying && time.Since(r.status.LastContact) >= silentAfter
	if silent {
		s.verifying = true
	}
	r.mu.Unlock()
	if silent && s.enter() {
		go s.verify()
	}
}

// verify reads the selection beside the stream. What the stream should have
// brought and did not ends it, for a consistent read. A watch at a version from
// the future is silent for ever: it happens without WatchList when the server
// was rolled back between the list and the watch.
func (s *session) verify() {
	defer s.calls.Done()
	silentSince := s.r.Status()
	err := s.compare(silentSince)
	s.r.mu.Lock()
	s.verifying = false
	if err == nil {
		s.r.status.LastContact = time.Now()
	}
	s.r.mu.Unlock()
	if errors.Is(err, errSilent) {
		s.end(err)
		return
	}
	if err != nil {
		klog.FromContext(s.ctx).V(2).Info("Verification of a silent stream failed", "reflector", s.r.name, "err", err)
		return
	}
	s.r.changed()
}

// compare returns nil if a consistent list tells what the stream told, errSilent
// if not, or why that is not known.
func (s *session) compare(silentSince Status) (err error) {
	defer recovered(&err) // of the store
	list, err := s.verifyingList()
	if err != nil {
		return err
	}
	version, err := versionOf(list)
	if err != nil {
		return err
	}
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	switch store, ok := s.r.store.(Verifier); {
	case olderThan(version, silentSince.ResourceVersion):
		return errSilent // rolled back
	case ok && !store.Holds(items) && s.r.Status().LastContact.Equal(silentSince.LastContact):
		return errSilent // an event was lost
	}
	return nil
}

// verifyingList lists the selection once, consistently. What it fails at says
// nothing of the stream.
func (s *session) verifyingList() (runtime.Object, error) {
	member := s.r.gate.admission.Join(s.r.resource, nil)
	defer member.Leave()
	if err := member.Acquire(s.ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, answerTimeout)
	defer cancel()
	list, err := listFrom(ctx, s.r.source, metav1.ListOptions{})
	if s.ctx.Err() != nil {
		return nil, s.ctx.Err()
	}
	member.Release(outcomeOf(err))
	return list, err
}
