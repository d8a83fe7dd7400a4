// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func TestSlotsFollowTheServersLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSilentExchange(t, ownKinds()[0], 1<<20)
		c := e.conn()
		set := func(n uint32) { e.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: n}) }
		if c.limit() != 0 || c.reserve() {
			t.Error("the connection takes a stream before the server has said how many")
		}
		set(1)
		e.wantEvents("slotFreed")
		if c.limit() != 1 || !c.reserve() || c.reserve() {
			t.Error("the connection does not keep to a limit of 1")
		}
		set(2)
		e.wantEvents("slotFreed")
		if !c.reserve() || c.taken() != 2 {
			t.Errorf("the limit was raised to 2, %d slots are taken", c.taken())
		}
		set(1)
		e.wantEvents()
		c.release()
		e.wantEvents()
		if c.reserve() {
			t.Error("the limit was lowered to 1, and one slot is taken")
		}
		c.release()
		e.wantEvents("slotFreed", "idle")
		c.close()
		e.wantEvents("gone")
		if c.reserve() {
			t.Error("a closed connection takes a stream")
		}
	})
}

// A connection that is out of use takes no new streams, and the pool learns of that once. The others go on, and it ends
// with the last of them.
func TestConnectionOutOfUse(t *testing.T) {
	for name, test := range map[string]struct {
		fault func(e *exchange, ended, open uint32)
		sent  []string
	}{
		"GOAWAY":         {func(e *exchange, _, _ uint32) { e.goAway(1<<31-1, http2.ErrCodeNo) }, nil},
		"PROTOCOL_ERROR": {func(e *exchange, _, open uint32) { e.reset(open, http2.ErrCodeProtocol) }, nil},
		"frames after the end of their stream": {func(e *exchange, ended, _ uint32) {
			for range 3 {
				e.data(ended, "late")
			}
		}, []string{"GOAWAY STREAM_CLOSED"}},
	} {
		t.Run(name, func(t *testing.T) {
			withConn(t, func(t *testing.T, e *exchange) {
				others := []opened{e.open("/a"), e.open("/b")}
				ended, victim := e.open("/ended"), e.open("/v")
				e.endData(ended.id, "last")
				e.wantEvents("slotFreed")
				e.sent()
				test.fault(e, ended.id, victim.id)
				e.wantSent(test.sent...)
				e.wantEvents("gone")
				if e.conn().reserve() {
					t.Error("the connection takes a stream")
				}
				for i := range others {
					e.checkNeighbour(&others[i], false)
					others[i].close()
				}
				start := time.Now()
				victim.close()
				if !e.closed() || time.Since(start) > 0 {
					t.Errorf("the connection is open %v after its last stream", time.Since(start))
				}
				e.wantEvents()
			})
		})
	}
}

func TestStreamIDsRunOut(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		c := e.conn()
		c.mu.Lock()
		c.nextID = maxStreamID - 2
		c.mu.Unlock()
		for n := range 3 {
			if got, want := c.reserve(), n < 2; got != want {
				t.Errorf("slot %d: got %v, want %v: there are two ids", n, got, want)
			}
		}
		c.release()
		c.release()
		e.wantEvents("slotFreed", "slotFreed", "idle") // it is not gone: the ids are not used
		last := []opened{e.open("/a"), e.open("/b")}
		e.wantEvents("gone")
		for _, v := range last {
			e.endData(v.id, "")
		}
		if !e.closed() {
			t.Error("the connection without ids is open after its last stream")
		}
	})
}

// The SETTINGS of a server that writes first are acknowledged after the preface and the SETTINGS of the client.
func TestNothingPrecedesThePreface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		go func() {
			c, err := newConn(client, &eventLog{}, connOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			synctest.Wait()
			c.close()
			<-c.done
		}()
		check(t, http2.NewFramer(server, nil).WriteSettings())
		synctest.Wait()
		all, _ := io.ReadAll(server)
		rest, ok := strings.CutPrefix(string(all), http2.ClientPreface)
		if !ok {
			t.Fatalf("the client's first bytes are %q", all[:min(40, len(all))])
		}
		f, err := http2.NewFramer(nil, strings.NewReader(rest)).ReadFrame()
		settings, ok := f.(*http2.SettingsFrame)
		if !ok || settings.IsAck() {
			t.Fatalf("the client's first frame is %v, %v", f, err)
		}
		if window, _ := settings.Value(http2.SettingInitialWindowSize); window != 4<<20 {
			t.Errorf("window of a stream: got %d bytes, want 4 MiB", window)
		}
	})
}

// A connection that has ended before newConn returns is an error, and causes no event.
func TestNewConnFails(t *testing.T) {
	tests := map[string]func(server net.Conn){
		"closed": func(server net.Conn) { _ = server.Close() },
		"invalid": func(server net.Conn) {
			go func() {
				_ = http2.NewFramer(server, nil).WritePing(false, [8]byte{})
				time.Sleep(time.Second)
				_, _ = io.Copy(io.Discard, server)
			}()
		},
	}
	for name, prepare := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			client, server := net.Pipe()
			prepare(server)
			events := &eventLog{}
			if c, err := newConn(client, events, connOptions{}); c != nil || err == nil {
				t.Errorf("newConn on a closed connection: %v, %v", c, err)
			}
			synctest.Wait()
			if got := events.take(); len(got) > 0 {
				t.Errorf("events %q of a connection that nobody got", got)
			}
		}))
	}
}

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
