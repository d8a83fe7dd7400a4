// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// attempts counts those of some objects of one node while all servers are away
// for so long.
func attempts(t *testing.T, client Client, objects int, away time.Duration) (count int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, 1)
		c.stop(c.servers...)
		node, follow := newNode(c), client.node()
		ctx, cancel := context.WithCancel(t.Context())
		for range objects {
			go follow(ctx, &source{node: node, object: c.newObject()})
		}
		after(away)
		count = c.refused()
		cancel()
		synctest.Wait()
	})
	return count
}

func TestAttemptsInAnOutage(t *testing.T) {
	tests := map[string]struct {
		client      Client
		objects     int
		least, most int
	}{
		// One at a time, 2.5 to 5 s apart in the end; the first ones together.
		"gate":                    {Refwatch("", 0), 100, 12, gateOpens + fastProbes + 24},
		"gate with one at a time": {Refwatch("", 1), 100, 12, 1 + fastProbes + 24},
		"no gate":                 {Ungated(), 100, 1200, 100 * (1 + fastProbes + 24)},
		// After 0.8 to 1.6 s, twice as much, and so on to 30 to 60 s: 5 to 7.
		"kubelet": {Kubelet("", 0), 100, 500, 800},
		// Of a hundred at once, as many as the burst allows, then 2 a second.
		"kubelet, 2 QPS": {Kubelet("", 2), 100, 60, 4 + 2*60},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := attempts(t, test.client, test.objects, outage); got < test.least || got > test.most {
				t.Errorf("got %d attempts in a minute, want %d to %d", got, test.least, test.most)
			}
		})
	}
}

// TestKubeletWaitsForRetryAfter: it asks again within the request, every second.
func TestKubeletWaitsForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, 1)
		c.stop(c.servers...)
		c.servers[0].start(4500 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		go Kubelet("", 0).node()(ctx, &source{node: newNode(c), object: c.newObject()})
		after(10 * time.Second)
		if _, all := c.allFresh(); !all {
			t.Error("got no stream after ten seconds, want one")
		}
		if m := c.servers[0].take(); m.throttled != 5 {
			t.Errorf("got %d answers of 429, want 5: one a second until the cache is ready", m.throttled)
		}
		cancel()
		synctest.Wait()
	})
}
