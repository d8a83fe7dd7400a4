// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"strings"
	"testing"
)

// One event of 1 KiB on one of 100 streams, which a Receiver takes.
func BenchmarkReceive(b *testing.B) {
	const streams = 100
	up, down := memPipe(1 << 20)
	s := newScript(b, down, false)
	client := dialConn(b, up)
	s.accept()
	s.answersPing() // the client has read SETTINGS
	var ids []uint32
	for range streams {
		c := get(client, "/", receive)
		id := s.request("/")
		s.ok(id)
		for c.status() == 0 {
			<-c.changed
		}
		defer func() { c.close(); <-c.done }()
		ids = append(ids, id)
	}
	s.mute()
	event := strings.Repeat("x", 1<<10)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.data(ids[i%streams], event)
		if i%1000 == 999 && !s.answersPing() {
			b.Fatal("the client does not read")
		}
	}
	client.close()
}

// A stream from its request to Close, with the PING that frees its slot.
func BenchmarkOpenAndClose(b *testing.B) {
	up, down := memPipe(1 << 20)
	s := newScript(b, down, false)
	client := dialConn(b, up)
	s.accept()
	s.answersPing() // the client has read SETTINGS
	b.ReportAllocs()
	for b.Loop() {
		c := get(client, "/", hold)
		id := s.request("/")
		s.ok(id)
		<-c.done
		c.close()
		ping := s.take("PING", func(f frame) bool { return f.ping != [8]byte{} })
		s.pong(ping.ping)
		s.take("RST_STREAM", func(f frame) bool { return f.code != 0 })
	}
	client.close()
}
