// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/internal/states"
)

// resume opens the stream of a large object without reading the object again, if a list of
// its metadata proves that the store holds the state. Else it reports false, and the state
// must be read.
//
// The list is made at the version that a read would be made at. It proves that the server
// has reached that version, so that the plain watch after it is not silent. It also
// shows UID and version of the object, and the times of its writes.
func (s *session) resume() (resumed bool, err error) {
	source, ok := s.r.source.(listwatch.Resumable)
	if !ok || s.once || s.verb == course.Get || !source.IsLarge() || !s.r.verbs.mayCompare() ||
		!s.r.progress.mayResume(s.r.gate.streams.restoreCount()) {
		return false, nil
	}
	next := s.verb
	s.verb = course.Metadata
	version, same, err := s.compareMetadata(s.context(), source)
	if err != nil {
		if _, goOn, f := s.readFailed(err); !goOn {
			return false, f.Err
		}
	}
	if err != nil || !same {
		s.use(next)
		return false, nil
	}
	watchable := s.answered(version)
	s.r.store.confirm(version)
	s.stateStored(version, watchable)
	return true, s.watchFrom(version)
}

// compareMetadata reports whether the store holds the state that the server has at a
// version. A source may panic.
func (s *session) compareMetadata(ctx context.Context, source listwatch.Resumable) (version string, same bool, err error) {
	defer redact.Panic(&err)
	asked := s.ask()
	list, same, err := source.Compare(ctx, metav1.ListOptions{ResourceVersion: asked})
	if err != nil {
		return "", false, redact.Error(err)
	}
	if version, err = versionOf(list); err != nil {
		return "", false, err
	}
	items, err := itemsOf(list)
	if err != nil {
		return "", false, err
	}
	if order, _ := states.CompareVersions(version, asked); order < 0 || s.r.progress.isAbove(version) {
		return "", false, nil // a read proves a restore, or not
	}
	held, _ := s.r.store.holds(items)
	return version, same && held, nil
}

// mayResume reports whether the next read may be a list of metadata. The gate knows so many
// restores of etcd: after one, an object may have other content under the same version. After a
// failure that is no break, a read shows more.
func (p *progress) mayResume(restores uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	class := p.failures.class()
	return p.synced && p.seen.Version() != "" && !p.seen.MustRead(restores) &&
		!class.NeedsConsistentRead() && !class.IsRefusal() && class != failure.Failed
}
