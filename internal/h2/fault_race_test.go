// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Callers read, receive, consume, close and cancel in all orders, on goroutines of their
// own, while the server sends, resets, and ends the connection. Nothing hangs, End is
// called once for each stream, unless it was closed, and nothing is left. (This test is
// for the race detector, and runs in real time.)
func TestFaultRaces(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, round))
		up, down := memPipe(64 << 10)
		s := newScript(t, down, false)
		client := dialConn(t, up)
		var server, callers sync.WaitGroup
		server.Go(func() { respondAtRandom(s, rand.New(rand.NewPCG(seed, 1000+round))) })
		for i := range 32 {
			own := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
			callers.Go(func() { callAtRandom(t, client, fmt.Sprintf("/%d", i), own) })
		}
		if round%2 == 0 {
			for range random.IntN(2000) {
				runtime.Gosched()
			}
			client.(*ownClient).conn.close()
		}
		callers.Wait()
		client.close()
		server.Wait()
	}
}

// respondAtRandom answers requests until the connection ends, which it may do itself.
func respondAtRandom(s *script, random *rand.Rand) {
	s.settings()
	handled, left := 0, 20+random.IntN(60)
	var open []uint32
	for {
		var arrived []frame
		s.await(func() bool {
			arrived = s.log[handled:]
			return len(arrived) > 0 || s.ended != nil
		})
		if len(arrived) == 0 {
			return
		}
		handled += len(arrived)
		for _, f := range arrived {
			switch {
			case f.Type == http2.FrameHeaders:
				open = append(open, f.StreamID)
				s.ok(f.StreamID)
			case f.Type == http2.FramePing && !f.Flags.Has(http2.FlagPingAck):
				s.pong(f.ping)
			}
			if len(open) == 0 {
				continue
			}
			i := random.IntN(len(open))
			switch id := open[i]; random.IntN(8) {
			case 0:
				s.endData(id, "end")
				open = append(open[:i], open[i+1:]...)
			case 1:
				s.reset(id, http2.ErrCodeInternal)
				open = append(open[:i], open[i+1:]...)
			case 2:
				s.ping(floodPing)
				s.settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: random.Uint32() >> 2})
			default:
				s.data(id, strings.Repeat("x", random.IntN(50_000)))
			}
		}
		if left--; left == 0 {
			s.goAway(uint32(random.IntN(64)), http2.ErrCodeNo)
			s.cut()
		}
	}
}

// callAtRandom sends one request and does something with its response.
func callAtRandom(t *testing.T, c testClient, path string, random *rand.Rand) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server"+path, http.NoBody)
	if err != nil || !c.reserve() {
		return
	}
	if random.IntN(6) == 0 {
		go cancel()
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return
	}
	body := resp.Body.(Body)
	req.Header.Set("changed", "after the request") // it is the caller's again
	switch random.IntN(4) {
	case 0:
		go func() {
			for range random.IntN(500) {
				runtime.Gosched()
			}
			cancel()
		}()
		_, _ = io.CopyN(io.Discard, body, 100_000)
	case 1:
		go func() { _ = body.Close() }()
		_, _ = io.Copy(io.Discard, body)
	default:
		r := &raceReceiver{t: t, body: body, ended: make(chan struct{}), consumes: random.IntN(2) == 0}
		body.Receive(r)
		if random.IntN(2) == 0 {
			body.Detach()
		}
		go cancel()
		for range random.IntN(200) {
			body.Consumed(random.IntN(10_000))
			runtime.Gosched()
		}
		if random.IntN(2) == 0 {
			_ = body.Close()
			break
		}
		go func() { _ = body.Close() }()
		select {
		case <-r.ended:
		case <-time.After(50 * time.Millisecond): // it was closed before the end
		}
	}
	_ = body.Close()
}

// raceReceiver checks that its methods are called one at a time, and End once.
type raceReceiver struct {
	t        *testing.T
	body     Body
	ended    chan struct{}
	consumes bool
	calls    int // not guarded: the race detector sees two calls at a time
}

func (r *raceReceiver) Data(p []byte) int {
	r.calls++
	if r.calls%7 == 0 {
		r.body.Consumed(1)
	}
	if r.consumes {
		return len(p)
	}
	return r.calls % (len(p) + 1)
}

func (r *raceReceiver) End(err error) {
	r.calls++
	if err == nil {
		r.t.Errorf("got no error from End")
	}
	close(r.ended) // panics if it is called twice
}
