// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"slices"
	"sync"

	"k8s.io/klog/v2"
)

// errDecodes is why a stream that is not [listwatch.Parkable] is not parked.
var errDecodes = errors.New("the client decodes its streams itself, as dynamic and metadata clients do")

// unparked is why streams of a gate are not parked.
type unparked struct {
	mu     sync.Mutex
	causes []error // each once; the last one is that of the last stream
}

// add records why a stream of r is not parked. It logs each cause once: a program may
// have thousands of such streams.
func (u *unparked) add(r *Reflector, cause error) {
	u.mu.Lock()
	i := slices.Index(u.causes, cause)
	if i >= 0 {
		u.causes = slices.Delete(u.causes, i, i+1)
	}
	u.causes = append(u.causes, cause)
	u.mu.Unlock()
	if i < 0 {
		klog.FromContext(r.ctx).V(2).Info("A stream could not be parked, and has a goroutine", "reflector", r.String(), "reason", cause)
	}
}

// last returns the cause of the last stream, nil if there was none.
func (u *unparked) last() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.causes) == 0 {
		return nil
	}
	return u.causes[len(u.causes)-1]
}
