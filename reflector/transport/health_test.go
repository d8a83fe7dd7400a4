// SPDX-License-Identifier: Apache-2.0

package transport

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
