// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// Under churn there are never more connections than twice what is needed, and few
// dials: openings fill the oldest connections, and others drain.
func TestPoolUnderChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, latency: 20 * time.Millisecond}
		p := newPool(server.dial)
		random := rand.New(rand.NewPCG(1, 2))
		var streams []*acquisition
		for minute := range 120 {
			target := 200 + 1800*(minute/60%2) // 200 streams for an hour, 2,000 for the next
			for range 300 {                    // of them end in a minute, and others begin
				if len(streams) > 0 {
					i := random.IntN(len(streams))
					streams[i].c.release()
					streams[i] = streams[len(streams)-1]
					streams = streams[:len(streams)-1]
				}
				for len(streams) < target && (len(streams) < target-10 || random.IntN(2) == 0) {
					o := open(t.Context(), p)
					<-o.done
					streams = append(streams, o)
				}
				for len(streams) > target {
					streams[len(streams)-1].c.release()
					streams = streams[:len(streams)-1]
				}
				time.Sleep(time.Minute / 300)
			}
			needed := (len(streams) + 99) / 100
			if _, _, open := server.counts(); minute%60 > 50 && open > 2*needed {
				t.Errorf("minute %d: got %d connections for %d streams, want %d at most", minute, open, len(streams), 2*needed)
			}
		}
		if dials, _, _ := server.counts(); dials > 50 {
			t.Errorf("dials: got %d in two hours, want 50 at most", dials)
		}
		end(p)
	})
}
