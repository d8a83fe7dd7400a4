// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"strings"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

func TestSilentServerGetsAPing(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		_, s := p.open(1)
		time.Sleep(29 * time.Second)
		p.data(1, "x")
		time.Sleep(29 * time.Second)
		p.wantSent() // the frame counts
		time.Sleep(time.Second)
		p.wantSent("PING")
		time.Sleep(14 * time.Second)
		p.pong()
		time.Sleep(30*time.Second - time.Nanosecond)
		p.wantSent()
		time.Sleep(time.Nanosecond)
		p.wantSent("PING")

		start := time.Now()
		<-p.c.done
		if took := time.Since(start); took != 15*time.Second {
			t.Errorf("the connection ended %v after the PING, want 15s", took)
		}
		err := s.ended(t)
		if err == nil || !strings.Contains(err.Error(), "did not answer a PING within 15s") || !utilnet.IsTimeout(err) {
			t.Errorf("the stream's error is %v", err)
		}
	})
}

// TestResetsPingIsTheHealthCheck: there is one PING at a time, and a server that never
// answers the one after an RST_STREAM is found as well.
func TestResetsPingIsTheHealthCheck(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a, _ := p.open(1)
		_, s := p.open(3)
		_ = a.body.Close()
		p.wantSent("RST_STREAM 1 CANCEL", "PING")
		start := time.Now()
		<-p.c.done
		if took := time.Since(start); took != 45*time.Second || !utilnet.IsTimeout(s.ended(t)) {
			t.Errorf("the connection ended after %v with %v, want 45s", took, s.ended(t))
		}
		p.wantSent()
	})
}

// TestServerThatAcknowledgesNoPing: the slots of streams that were reset would never
// become free. So a server that sends data, but no acknowledgement, gets no new streams
// after 15 s. Those that are open go on.
func TestServerThatAcknowledgesNoPing(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a1, _ := p.open(1)
		a3, s3 := p.open(3)
		p.events.take()
		sendFor := func(d time.Duration) {
			for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(time.Second) {
				p.data(3, ".")
			}
		}
		_ = a1.body.Close()
		p.wantSent("RST_STREAM 1 CANCEL", "PING")
		sendFor(14 * time.Second)
		wantEvents(t, p)
		if !p.c.reserve() {
			t.Fatal("the connection takes no stream before the answer is due")
		}
		p.c.release()
		p.events.take()
		sendFor(2 * time.Second)
		wantEvents(t, p, "gone")
		if p.c.reserve() {
			t.Error("the connection takes a stream after 15 s without an answer")
		}
		sendFor(time.Hour)
		if got, err := s3.got(), s3.ended(t); err != nil || len(got) < 3600 {
			t.Errorf("the other stream got %d bytes in an hour and ended with %v, want it to go on", len(got), err)
		}
		p.pong() // too late
		if p.c.reserve() {
			t.Error("the connection takes a stream after it was reported as gone")
		}
		start := time.Now()
		_ = a3.body.Close()
		<-p.c.done
		if took := time.Since(start); took > 0 {
			t.Errorf("the connection ended %v after its last stream", took)
		}
		wantEvents(t, p)
	})
}

// TestAnswersInTime: PINGs that are acknowledged just in time leave the connection as it
// is, however many follow each other.
func TestAnswersInTime(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		_, s := p.open(1)
		for id := uint32(3); id < 43; id += 2 {
			a, _ := p.open(id)
			_ = a.body.Close()
			p.sent()
			time.Sleep(15*time.Second - time.Nanosecond)
			p.pong()
		}
		if !p.c.reserve() || p.c.taken() != 2 {
			t.Errorf("got %d taken slots, want those of a stream and a reservation", p.c.taken())
		}
		p.c.release()
		if err := s.ended(t); err != nil {
			t.Errorf("the stream ended: %v", err)
		}
	})
}

// TestServerThatAcknowledgesNoPing, without another stream: the connection ends.
func TestIdleServerThatAcknowledgesNoPing(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a, _ := p.open(1)
		start := time.Now()
		_ = a.body.Close()
		time.Sleep(14 * time.Second)
		p.send(p.framer.WritePing(false, [8]byte{1}))
		<-p.c.done
		if took, want := time.Since(start), 15*time.Second; took != want {
			t.Errorf("the connection ended after %v, want %v", took, want)
		}
	})
}
