// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// Streams end as soon as their connection is lost, also if the server takes no more bytes:
// TLS would wait 5 s to write its alert.
func TestLostConnectionDoesNotWaitForTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		server := serve(t, func(s *site) {
			s.TLSConfig.NextProtos = []string{"h2"}
			s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
				"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
					defer func() { _ = c.Close() }()
					readUntilPing(c)
					<-stuck
				},
			}
		})
		defer close(stuck)
		c := clientFor(t, server.config())
		response, err := c.get(t.Context(), "/api?watch=true")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		began := time.Now()
		_, err = response.Body.Read(make([]byte, 1))
		if took, want := time.Since(began), 45*time.Second; took != want || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("stream: got %v after %v, want its end after %v, 15 s after the PING", err, took, want)
		}
	})
}

// readUntilPing responds to requests, and returns when the client has sent a PING.
func readUntilPing(c *tls.Conn) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	out := make(writes, 100)
	defer close(out)
	go out.flush(c)
	f := http2.NewFramer(out, c)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.PingFrame:
			return
		case *http2.HeadersFrame:
			found(f, frame.StreamID)
		}
	}
}
