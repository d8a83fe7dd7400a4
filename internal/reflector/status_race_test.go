// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"sync"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Status may be called at any time: while a session begins, and while it ends.
func TestStatusBesideSessions(t *testing.T) {
	for range 300 {
		source := watching(func() (listwatch.Stream, error) {
			time.Sleep(50 * time.Microsecond)
			return nil, errDown
		})
		done := make(chan struct{})
		r := reflector.New(source, newSecretSlot(), reflector.Options{})
		r.Start(t.Context(), func() { close(done) })
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						_ = r.Status()
					}
				}
			})
		}
		time.Sleep(100 * time.Microsecond)
		r.Stop()
		<-done
		all.Wait()
	}
}
