// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// A faulty proxy sends DATA after the end of a stream. It gets one GOAWAY, and the
// connection takes no new streams. The others go on, and it ends with the last of them.
func TestFaultFrameOfEndedStream(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		var others []*sink
		var bodies []Body
		for i := range uint32(98) {
			a, s := p.open(2*i + 1)
			others, bodies = append(others, s), append(bodies, a.body)
		}
		const ended = 197
		p.open(ended)
		p.end(ended, "last")
		p.sent()
		p.events.take()
		for range 3 {
			p.data(ended, "late")
		}
		p.wantSent("GOAWAY STREAM_CLOSED")
		wantEvents(t, p, "gone")
		if p.c.reserve() {
			t.Error("the connection takes a new stream")
		}
		for i, s := range others {
			p.data(uint32(2*i+1), "x")
			if got, err := s.got(), s.ended(t); got != "x" || err != nil {
				t.Fatalf("stream %d: got %q and %v, want it to go on", 2*i+1, got, err)
			}
		}
		for _, body := range bodies {
			_ = body.Close()
		}
		synctest.Wait()
		select {
		case <-p.c.done:
		default:
			t.Error("the connection lives, want it to end with the last stream")
		}
	}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
}
