// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
)

func TestRoundTripReadsABody(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a := p.get(t.Context())
		p.wantSent("HEADERS 1 END_STREAM")
		p.header(1, false, ":status", "103", "link", "early") // skipped
		p.header(1, false, ":status", "200", "x-a", "b", "content-length", "5")
		<-a.done
		if a.err != nil || a.resp.StatusCode != 200 || a.resp.Header.Get("X-A") != "b" || a.resp.ContentLength != 5 {
			t.Fatalf("got %+v, %v", a.resp, a.err)
		}
		p.data(1, "hel")
		p.data(1, "lo")
		p.header(1, true, "x-trailer", "dropped")
		body, err := io.ReadAll(a.body)
		if string(body) != "hello" || err != nil {
			t.Errorf("read %q, %v; want hello", body, err)
		}
		if err := a.body.Close(); err != nil {
			t.Error(err)
		}
		p.wantSent() // an ended stream needs no RST_STREAM
	})
}

func TestReceiveTakesWhatHasArrivedFirst(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a := p.get(t.Context())
		p.header(1, false, ":status", "200")
		p.data(1, "one ")
		p.data(1, "two ")
		<-a.done
		buf := make([]byte, 2)
		if n, err := a.body.Read(buf); n != 2 || err != nil {
			t.Fatalf("Read: %d, %v", n, err)
		}
		s := &sink{}
		a.body.Receive(s)
		if _, err := a.body.Read(buf); err == nil {
			t.Error("Read after Receive: no error")
		}
		p.data(1, "three")
		if got := s.got(); got != "e two three" {
			t.Errorf("the receiver got %q", got)
		}
		p.end(1, "")
		if err := s.ended(t); !errors.Is(err, io.EOF) {
			t.Errorf("End(%v), want io.EOF", err)
		}
	})
}

// TestContextThatHasEnded: the request is not sent, and whatever of the two the request
// waits for comes first, the next one can be.
func TestContextThatHasEnded(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			if a := p.get(ctx); !errors.Is(a.err, context.Canceled) {
				t.Errorf("roundTrip: %v, want %v", a.err, context.Canceled)
			}
		}
		p.wantSent()
		p.get(t.Context())
		p.wantSent("HEADERS 1 END_STREAM")
	})
}

func TestContextEndsTheStreamUntilDetach(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		ctx, cancel := context.WithCancel(t.Context())
		waiting := p.get(ctx)
		tied, detached := p.get(ctx), p.get(ctx)
		p.header(3, false, ":status", "200")
		p.header(5, false, ":status", "200")
		synctest.Wait()
		p.sent()
		s3, s5 := &sink{}, &sink{}
		tied.body.Receive(s3)
		detached.body.Receive(s5)
		detached.body.Detach()
		cancel()
		<-waiting.done
		if !errors.Is(waiting.err, context.Canceled) || !errors.Is(s3.ended(t), context.Canceled) {
			t.Errorf("roundTrip: %v; End(%v); want %v", waiting.err, s3.ended(t), context.Canceled)
		}
		if sent := p.sent(); len(sent) != 3 { // in any order: both end at once
			t.Errorf("the client sent %q, want RST_STREAM 1 and 3, and PING", sent)
		}
		p.data(5, "on")
		if got, err := s5.got(), s5.ended(t); got != "on" || err != nil {
			t.Errorf("detached: got %q, End(%v)", got, err)
		}
	})
}
