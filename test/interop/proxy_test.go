// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"testing"
)

// Streams open, deliver and close through a front end, whatever its limits, and take as few connections as these allow.
func TestFrontEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options     frontEndOptions
		streams     int
		connections int    // at most
		only        string // the front end; empty for both
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
			t.Run(testName(front.name, name), func(t *testing.T) {
				feed := newFeed(t)
				test.options.backend = feed.serve(t)
				w := newWatcher(t, refwatch, front.start(t, test.options).address)
				w.try(feed, test.streams, test.connections)
				results.add(front.name, name, refwatch, fmt.Sprintf("%d streams on %d connections", test.streams, w.dialled()))
			})
		}
	}
}
