// SPDX-License-Identifier: Apache-2.0

package listwatch

import "k8s.io/apimachinery/pkg/watch"

// Parkable is a [Stream] that can be read without a goroutine that blocks in Next.
type Parkable interface {
	Stream
	// Park ends the use of Next: from now on the stream calls wake.Wake when TryNext has
	// something to return. Park reports false if the stream cannot be parked; Next
	// remains then. Wake may be called before Park returns.
	Park(wake Waker) bool
	// TryNext returns the next event, or the end as Next does. If there is neither, ok is
	// false and err is nil; Wake is called once when there is something again. It is
	// called from one goroutine at a time.
	TryNext() (event watch.Event, ok bool, err error)
}

// Waker is notified by a [Parkable].
type Waker interface {
	// Wake is called on a goroutine that must not be blocked.
	Wake()
}
