// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// What a store logs about single objects, at level 4.

// logLine is a line that is not written yet.
type logLine struct {
	key     types.NamespacedName
	message string
	reason  error // nil for a beginning
}

// logLocked logs what happens to an object, in the order of the calls. It does so on a
// goroutine without mu: a logger may call the store.
func (s *WatchStore[T]) logLocked(e *entry[T], message string, reason error) {
	if !klog.FromContext(s.ctx).V(4).Enabled() {
		return
	}
	s.logLines = append(s.logLines, logLine{e.key, message, reason})
	if !s.logging {
		s.logging = true
		s.background.Go(s.writeLog)
	}
}

// writeLog writes the lines until there are none.
func (s *WatchStore[T]) writeLog() {
	logger := klog.FromContext(s.ctx).V(4)
	for {
		s.mu.Lock()
		lines := s.logLines
		s.logLines, s.logging = nil, len(lines) > 0
		s.mu.Unlock()
		if len(lines) == 0 {
			return
		}
		for _, line := range lines {
			details := []any{"resource", s.resource.resource, "object", klog.KRef(line.key.Namespace, line.key.Name)}
			if line.reason != nil {
				details = append(details, "reason", line.reason)
			}
			logger.Info(line.message, details...)
		}
	}
}

// logEndLocked logs why the stream or the read of a watch ends, if there is one.
func (w *objectWatch[T]) logEndLocked(reason error) {
	switch w.upkeep {
	case engine.ByStream:
		w.store.logLocked(w.entry, "Stopped watching", reason)
	case engine.ByRead:
		w.store.logLocked(w.entry, "Stopped reading", reason)
	case engine.BySharedStream, engine.ByNone:
	}
}
