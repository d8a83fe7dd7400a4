// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func wantEvents(t *testing.T, p *peer, want ...string) {
	t.Helper()
	if got := p.events.take(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestSlotsFollowTheServersLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		set := func(n uint32) {
			p.send(p.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: n}))
			p.sent()
		}
		if p.c.limit() != 0 || p.c.reserve() {
			t.Error("the connection takes a stream before the server has said how many")
		}
		set(1)
		wantEvents(t, p, "slotFreed")
		if p.c.limit() != 1 || !p.c.reserve() || p.c.reserve() {
			t.Error("the connection does not keep to a limit of 1")
		}
		set(2)
		wantEvents(t, p, "slotFreed")
		if !p.c.reserve() || p.c.taken() != 2 {
			t.Errorf("the limit was raised to 2, %d slots are taken", p.c.taken())
		}
		set(1)
		p.events.take()
		p.c.release()
		wantEvents(t, p)
		if p.c.reserve() {
			t.Error("the limit was lowered to 1, and one slot is taken")
		}
		p.c.release()
		wantEvents(t, p, "slotFreed", "idle")
		p.c.close()
		<-p.c.done
		wantEvents(t, p, "gone")
		if p.c.reserve() {
			t.Error("a closed connection takes a stream")
		}
	})
}

// TestResetHoldsTheSlot: the slot of a stream that the client has reset is free when
// the server has acknowledged a PING that was sent after the RST_STREAM.
func TestResetHoldsTheSlot(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		var bodies []Body
		for id := uint32(1); id <= 7; id += 2 {
			a, _ := p.open(id)
			bodies = append(bodies, a.body)
		}
		p.events.take()
		_ = bodies[0].Close()
		p.wantSent("RST_STREAM 1 CANCEL", "PING")
		_ = bodies[1].Close()
		_ = bodies[2].Close()
		_ = bodies[2].Close()
		p.wantSent("RST_STREAM 3 CANCEL", "RST_STREAM 5 CANCEL")
		wantEvents(t, p) // whoever waits for a slot gets none of these
		if got := p.c.taken(); got != 4 {
			t.Errorf("%d slots are taken before the answer, want 4", got)
		}
		p.pong()
		p.wantSent("PING")
		wantEvents(t, p, "slotFreed")
		if got := p.c.taken(); got != 3 {
			t.Errorf("%d slots are taken after the first answer, want 3", got)
		}
		p.send(p.framer.WritePing(true, [8]byte{9}))
		synctest.Wait()
		if got := p.c.taken(); got != 3 {
			t.Errorf("%d slots are taken after a foreign answer, want 3", got)
		}
		p.pong()
		if got := p.c.taken(); got != 1 {
			t.Errorf("%d slots are taken after the second answer, want 1", got)
		}
		p.wantSent()
	})
}

func TestGoAway(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		_, s1 := p.open(1)
		_, s3 := p.open(3)
		a5 := p.get(t.Context())
		if !p.c.reserve() {
			t.Fatal("no slot")
		}
		p.events.take()
		p.send(p.framer.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)) // as a server that drains
		synctest.Wait()
		if p.c.reserve() {
			t.Error("the connection takes a stream after GOAWAY")
		}
		wantEvents(t, p, "gone")
		if _, err := p.c.roundTrip(newRequest(t.Context(), t), nil); !errors.Is(err, errUnprocessed) {
			t.Errorf("a request after GOAWAY: %v, want %v", err, errUnprocessed)
		}
		p.send(p.framer.WriteGoAway(1, http2.ErrCodeNo, nil))
		<-a5.done
		for id, err := range map[int]error{3: s3.ended(t), 5: a5.err} {
			if !errors.Is(err, errUnprocessed) || !errors.As(err, &http2.GoAwayError{}) {
				t.Errorf("stream %d: %v, want %v", id, err, errUnprocessed)
			}
		}
		p.end(1, "last")
		if got, err := s1.got(), s1.ended(t); got != "last" || !errors.Is(err, io.EOF) {
			t.Errorf("stream 1: got %q, End(%v)", got, err)
		}
		start := time.Now()
		<-p.c.done // the connection ends itself
		if took := time.Since(start); took > 0 {
			t.Errorf("the connection ended %v after its last stream", took)
		}
		wantEvents(t, p)
	})
}

func TestEndOfTheConnectionEndsItsStreams(t *testing.T) {
	tests := map[string]struct {
		end  func(*peer)
		want error
		text string
	}{
		"the server closes it": {
			end:  func(p *peer) { _ = p.net.Close() },
			want: io.ErrUnexpectedEOF, text: "HTTP/2 connection ended: unexpected EOF",
		},
		"the server closes it after GOAWAY": {
			end: func(p *peer) {
				p.send(p.framer.WriteGoAway(7, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings")))
				_ = p.net.Close()
			},
			want: http2.GoAwayError{LastStreamID: 7, ErrCode: http2.ErrCodeEnhanceYourCalm, DebugData: "too_many_pings"}, text: `ENHANCE_YOUR_CALM, debug="too_many_pings"`,
		},
		"the client closes it": {end: func(p *peer) { p.c.close() }, want: errConnClosed, text: "this client closed"},
		"the server breaks the protocol": {
			end:  func(p *peer) { p.data(2, "secret") },
			want: http2.ConnectionError(http2.ErrCodeProtocol), text: "PROTOCOL_ERROR",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(t *testing.T, p *peer) {
				_, s := p.open(1)
				waiting := p.get(t.Context())
				test.end(p)
				<-p.c.done
				<-waiting.done
				for _, err := range []error{s.ended(t), waiting.err} {
					if !errors.Is(err, test.want) || errors.Is(err, io.EOF) || errors.Is(err, errUnprocessed) {
						t.Errorf("the stream's error is %v, want %v", err, test.want)
					}
					if text := err.Error(); !strings.Contains(text, test.text) ||
						strings.Contains(text, "secret") || strings.Count(text, "ended") != 1 {
						t.Errorf("the stream's error is %q, want one cause, without data", text)
					}
				}
				p.events.take()
				p.c.close()
				wantEvents(t, p)
			})
		})
	}
}

func TestStreamIDsRunOut(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		p.c.mu.Lock()
		p.c.nextID = maxStreamID - 2
		p.c.mu.Unlock()
		p.events.take()
		for n := range 3 {
			if got, want := p.c.reserve(), n < 2; got != want {
				t.Errorf("slot %d: got %v, want %v: there are two ids", n, got, want)
			}
		}
		p.send(p.framer.WriteSettings())
		p.sent()
		p.c.release()
		p.c.release()
		wantEvents(t, p, "slotFreed", "slotFreed", "idle") // it is not gone: the ids are not used
		p.open(maxStreamID - 2)
		p.open(maxStreamID)
		wantEvents(t, p, "gone")
		p.end(maxStreamID-2, "")
		p.end(maxStreamID, "")
		<-p.c.done
	})
}

// TestNothingPrecedesThePreface: the SETTINGS of a server that writes first are
// acknowledged after the preface.
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
		if err := http2.NewFramer(server, nil).WriteSettings(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		all, _ := io.ReadAll(server)
		if !strings.HasPrefix(string(all), http2.ClientPreface) {
			t.Errorf("the client's first bytes are %q", all[:min(40, len(all))])
		}
	})
}

// TestNewConnFails: a connection that has ended before newConn returns is an error, and
// causes no event.
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
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { testNewConnFails(t, test) })
	}
}

func testNewConnFails(t *testing.T, prepare func(server net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		prepare(server)
		events := &eventLog{}
		if c, err := newConn(client, events, connOptions{}); c != nil || err == nil {
			t.Errorf("newConn on a closed connection: %v, %v", c, err)
		}
		if got := events.take(); len(got) > 0 {
			t.Errorf("events %q of a connection that nobody got", got)
		}
	})
}
