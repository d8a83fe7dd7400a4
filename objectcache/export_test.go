// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// CheckReplaced is a turn of a Get whose watch is replaced after the Get has loaded it. It calls between after that.
func CheckReplaced[T cache.Object](
	s *WatchStore[T], key types.NamespacedName, notOlderThan string, between func(),
) (state cache.State[T], ok bool, err error) {
	g := &waiter[T]{ctx: context.Background(), key: key, notOlderThan: notOlderThan, began: time.Now()}
	w, _, err := s.addWaiter(g)
	if err != nil {
		return state, false, err
	}
	defer s.removeWaiter(g)
	s.mu.Lock()
	s.startLocked(g.entry)
	s.mu.Unlock()
	between()
	turn := s.check(g, w)
	if turn.verdict == fail {
		err = s.failure(g, &turn)
	}
	return turn.state, turn.verdict.serves(), err
}
