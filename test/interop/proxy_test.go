// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"testing"
)

// Streams open, deliver and close through a front end, whatever its limits, and take as few connections as these allow.
func TestFrontEnds(t *testing.T) {
	tests := map[string]struct {
		options     frontEndOptions
		streams     int
		connections int // at most
		only        string
	}{
		"as installed":             {frontEndOptions{}, 250, 3 + 5, ""},
		"10 streams a connection":  {frontEndOptions{streams: "10"}, 100, 10 + 5, ""},
		"1 stream a connection":    {frontEndOptions{streams: "1"}, 20, 20 + 5, ""},
		"GOAWAY after 20 requests": {frontEndOptions{server: "keepalive_requests 20;"}, 200, 10 + 5, "nginx"},
	}
	for name, test := range tests {
		for _, front := range frontEnds {
			if test.only != "" && test.only != front.name {
				continue
			}
			for _, c := range []client{refwatch, reading, pooled} {
				t.Run(testName(front.name, name, c.name), func(t *testing.T) {
					feed := newFeed(t)
					options := test.options
					options.backend = feed.serve(t)
					w := newWatcher(t, c, front.start(t, options).address)
					w.open(test.streams)
					w.publish(feed, "update")
					w.publish(feed, large("large", 100_000))
					w.alive()
					got := int(w.connections.dialled.Load())
					if got > test.connections {
						t.Errorf("connections for %d streams: got %d, want at most %d", test.streams, got, test.connections)
					}
					results.addRun(front.name, name, fmt.Sprintf("%s: %d streams on %d connections", c.name, test.streams, got))
				})
			}
		}
	}
}
