// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// Each reason for which a connection takes no new streams is counted once, and so is each
// frame by which a server ends streams.
func TestCounters(t *testing.T) {
	type counts struct {
		left            map[string]uint64
		resets, goAways map[string]uint64
	}
	one := func(name string) map[string]uint64 { return map[string]uint64{name: 1} }
	// f has a connection with a stream that is open, and v, whose header has not come.
	tests := map[string]struct {
		do   func(f *fleet, v *call, e *exchange, id uint32)
		want counts
	}{
		"nothing": {func(*fleet, *call, *exchange, uint32) {}, counts{}},
		"RST_STREAM": {func(_ *fleet, _ *call, e *exchange, id uint32) {
			e.reset(id, http2.ErrCodeInternal)
		}, counts{resets: one("INTERNAL_ERROR")}},
		"RST_STREAM of an ended stream": {func(_ *fleet, _ *call, e *exchange, id uint32) {
			e.endHeader(id, ":status", "200")
			e.reset(id, http2.ErrCodeNo)
		}, counts{}},
		"RST_STREAM with an unknown code": {func(_ *fleet, _ *call, e *exchange, id uint32) {
			e.reset(id, 0x99)
		}, counts{resets: one(OtherCode)}},
		"poisoned": {func(_ *fleet, _ *call, e *exchange, id uint32) {
			e.reset(id, http2.ErrCodeProtocol)
		}, counts{left: one(Poisoned), resets: one("PROTOCOL_ERROR")}},
		"GOAWAY, then the end": {func(_ *fleet, _ *call, e *exchange, id uint32) {
			e.ok(id)
			e.goAway(id, http2.ErrCodeEnhanceYourCalm)
			e.cut()
		}, counts{left: one(GoAway), goAways: one("ENHANCE_YOUR_CALM")}},
		"cut": {func(_ *fleet, _ *call, e *exchange, _ uint32) { e.cut() }, counts{left: one(Lost)}},
		"broken": {func(_ *fleet, _ *call, e *exchange, _ uint32) {
			e.data(0, "x")
		}, counts{left: one(ProtocolError)}},
		"a frame after the end": {func(_ *fleet, _ *call, e *exchange, id uint32) {
			e.endHeader(id, ":status", "200")
			e.data(id, "x")
		}, counts{left: one(FrameAfterEnd)}},
		"silence": {func(_ *fleet, _ *call, e *exchange, id uint32) {
			e.ok(id)
			time.Sleep(46 * time.Second)
		}, counts{left: one(NoPingAnswer)}},
		"a request without an answer": {func(f *fleet, _ *call, _ *exchange, _ uint32) {
			f.greetWith(func(*exchange) {})
			time.Sleep(suspectAfter + time.Millisecond)
		}, counts{left: one(Suspect)}},
		"idle": {func(f *fleet, v *call, e *exchange, id uint32) {
			e.ok(id)
			f.calls[0].close()
			v.close()
			for range 2 {
				for _, sent := range e.pingsSent() {
					e.pong(sent.ping)
				}
				synctest.Wait()
			}
			f.transport.CloseIdleConnections()
		}, counts{left: one(Idle)}},
	}
	for name, test := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			f := newFleet(t)
			f.get("/v")
			f.scripts[0].ok(f.requestOn(0).id)
			v := f.get("/v")
			test.do(f, v, f.scripts[0], f.scripts[0].request("/v?watch=true"))
			synctest.Wait()
			got := f.counters.Counts()
			checkCounts(t, "reasons", got.Left, test.want.left)
			checkCounts(t, "RST_STREAM", got.Resets, test.want.resets)
			checkCounts(t, "GOAWAY", got.GoAways, test.want.goAways)
		}))
	}
}

// checkCounts compares what is not 0.
func checkCounts[K ~string](t *testing.T, what string, got, want map[K]uint64) {
	t.Helper()
	if len(got) < 10 {
		t.Errorf("%s: got %d keys, want all", what, len(got))
	}
	maps.DeleteFunc(got, func(_ K, n uint64) bool { return n == 0 })
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
