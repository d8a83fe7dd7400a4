// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/refwatch/refwatch/internal/redact"
)

// How a session reads its object with a GET.

// readObject stores what a GET has brought. If a stream should follow, it returns why there is none.
func (s *session) readObject() error {
	s.ask()
	items, version, err := s.get()
	if err != nil {
		return err
	}
	if s.r.progress.objectAnswered() {
		s.r.store.newEpoch()
	}
	if err := s.replace(items, ""); err != nil || s.r.verbs.course.Only() {
		return err
	}
	s.r.progress.objectRead(version)
	if s.once {
		return nil
	}
	s.earlier = true
	return s.r.verbs.polled()
}

// get reads the object, and returns its version. A store may panic.
func (s *session) get() (items []any, version string, err error) {
	defer redact.Panic(&err)
	object, err := s.r.store.Store.(Getter).GetObject(s.context())
	if err != nil || object == nil {
		return nil, "", redact.Error(err)
	}
	if header, err := meta.Accessor(object); err == nil {
		version = header.GetResourceVersion()
	}
	items = []any{object}
	return items, version, s.r.expected().checkAll(items)
}

// objectAnswered takes the answer to a GET that is about to reach the store: see [course.Seen.Get].
func (p *progress) objectAnswered() (restored bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.Get()
}

// objectRead records that a GET has brought the object at a version, and nothing of what came after it: the
// next read of a list or a WatchList must be a consistent one. Another API server may be behind.
func (p *progress) objectRead(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.consistent = true
	p.seen.Event(version)
}
