// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

func TestInflowCreditsAQuarterOrAllThatBlocks(t *testing.T) {
	const size = 1000
	type step struct{ take, consumed, want int32 }
	tests := map[string][]step{
		"small events wait for a quarter": {{100, 100, 0}, {100, 100, 0}, {50, 50, 250}, {100, 100, 0}},
		"a quarter at once":               {{250, 250, 250}},
		"a held window gets all credit":   {{200, 200, 0}, {700, 0, 200}, {300, 0, 0}, {0, 1000, 1000}},
		"more than arrived is not counted": {{100, 900, 0}, {300, 300, 400}, {0, 5, 0},
			{1000, 1000, 1000}},
		"a negative count is none": {{300, -5, 0}, {0, 300, 300}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			f := inflow{available: size}
			for i, s := range steps {
				if !f.take(s.take) {
					t.Fatalf("step %d: the window is too small", i)
				}
				if got := f.credit(int(s.consumed), size); got != s.want {
					t.Errorf("step %d: increment %d, want %d", i, got, s.want)
				}
				if f.available+f.withheld > size {
					t.Errorf("step %d: the window has grown", i)
				}
			}
		})
	}
}

// fill sends n bytes on a stream.
func (p *peer) fill(id uint32, n int) {
	p.t.Helper()
	for n > 0 {
		part := min(n, maxFrame)
		p.data(id, strings.Repeat("x", part))
		n -= part
	}
}

func TestStreamWindow(t *testing.T) {
	const window, quarter = 4 << 20, 1 << 20
	withPeer(t, func(t *testing.T, p *peer) {
		a1, _ := p.open(1)
		held := &sink{hold: true}
		a3 := p.get(t.Context())
		p.header(3, false, ":status", "200")
		synctest.Wait()
		a3.body.Receive(held)
		p.sent()

		p.fill(1, quarter-maxFrame)
		p.wantSent()
		p.fill(1, maxFrame)
		p.wantSent("WINDOW_UPDATE 1 1048576")

		p.fill(3, window)
		p.wantSent()
		a3.body.Consumed(10)
		p.wantSent("WINDOW_UPDATE 3 10") // nothing may be withheld from a server that waits
		p.send(p.framer.WriteDataPadded(3, false, []byte("1234"), make([]byte, 3)))
		p.wantSent("WINDOW_UPDATE 3 4") // the padding and its length
		a3.body.Consumed(2 * window)
		p.wantSent("WINDOW_UPDATE 3 4194298")
		p.fill(3, window)
		p.data(3, "x")
		p.wantSent("RST_STREAM 3 FLOW_CONTROL_ERROR", "PING")
		if err := held.ended(t); !errors.As(err, &http2.StreamError{}) {
			t.Errorf("End(%v), want a StreamError", err)
		}
		a3.body.Consumed(window)
		_ = a3.body.Close()
		p.wantSent()
		_ = a1
	})
}

// TestConnectionWindow: all data returns to the window of the connection as it comes,
// also that of streams that have ended or hold it, and its padding.
func TestConnectionWindow(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		set := func(available int32) {
			p.c.mu.Lock()
			defer p.c.mu.Unlock()
			p.c.inflow = inflow{available: available, withheld: connWindow - available - 100}
		}
		a1, _ := p.open(1)
		a3 := p.get(t.Context())
		p.header(3, false, ":status", "200")
		synctest.Wait()
		a3.body.Receive(&sink{hold: true})
		_ = a1.body.Close()
		p.sent()
		for name, id := range map[string]uint32{"ended": 1, "held": 3} {
			set(100)
			p.send(p.framer.WriteDataPadded(id, false, []byte("1234"), make([]byte, 5)))
			p.wantSent("WINDOW_UPDATE 1073741634") // 2^30 - 200 + 10
			if p.c.err != nil {
				t.Errorf("%s: %v", name, p.c.err)
			}
		}
		set(3)
		p.data(3, "1234")
		p.wantSent("GOAWAY FLOW_CONTROL_ERROR")
	})
}
