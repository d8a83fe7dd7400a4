// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Of HTTP/2 (RFC 9113).
const (
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	headerSize  = 9
	typeHeaders = 0x1
	typeReset   = 0x3
)

// poisoner is a proxy of HTTP/2 frames in front of an API server. It terminates TLS.
type poisoner struct {
	listener net.Listener
	server   func(context.Context) (net.Conn, error)
	running  sync.WaitGroup

	mu    sync.Mutex
	links []*poisonedLink // oldest first
}

// poisonedLink is a connection of the client, and one to the server. mu also orders the frames to the client.
type poisonedLink struct {
	client, server net.Conn

	mu   sync.Mutex
	code uint32 // new streams are reset with it; 0 for a healthy link
}

// newPoisoner starts a proxy in front of the server of config, which has a token. It returns a config for the proxy.
func newPoisoner(t *testing.T, config *rest.Config) (*poisoner, *rest.Config) {
	t.Helper()
	self := httptest.NewTLSServer(nil)
	self.Close() // only its certificate is needed
	serverTLS, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	serverTLS.NextProtos = []string{"h2"}
	address := config.Host[len("https://"):]
	p := &poisoner{server: func(ctx context.Context) (net.Conn, error) {
		return (&tls.Dialer{Config: serverTLS}).DialContext(ctx, "tcp", address)
	}}
	p.listener, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: self.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.running.Go(func() { p.accept(t.Context()) })
	t.Cleanup(p.close)
	config = rest.CopyConfig(config)
	config.Host = "https://" + p.listener.Addr().String()
	config.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	return p, config
}

func (p *poisoner) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(ctx, client) })
	}
}

func (p *poisoner) serve(ctx context.Context, client net.Conn) {
	server, err := p.server(ctx)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &poisonedLink{client: client, server: server}
	p.mu.Lock()
	p.links = append(p.links, l)
	p.mu.Unlock()
	var down sync.WaitGroup
	down.Go(func() {
		defer l.close()
		copyFrames(server, l.toClient)
	})
	l.upward()
	l.close()
	down.Wait()
	p.mu.Lock()
	p.links = slices.DeleteFunc(p.links, func(other *poisonedLink) bool { return other == l })
	p.mu.Unlock()
}

// upward passes what the client sends to the server. A poisoned link answers requests itself; the server's HPACK state
// does not matter, as it gets no further header.
func (l *poisonedLink) upward() {
	start := make([]byte, len(preface))
	if _, err := io.ReadFull(l.client, start); err != nil {
		return
	}
	if _, err := l.server.Write(start); err != nil {
		return
	}
	copyFrames(l.client, func(frame []byte) error {
		l.mu.Lock()
		code := l.code
		l.mu.Unlock()
		if code == 0 || frame[3] != typeHeaders {
			_, err := l.server.Write(frame)
			return err
		}
		reset := make([]byte, headerSize, headerSize+4)
		reset[2], reset[3] = 4, typeReset
		copy(reset[5:], frame[5:headerSize]) // the stream
		return l.toClient(binary.BigEndian.AppendUint32(reset, code))
	})
}

func (l *poisonedLink) toClient(frame []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.client.Write(frame)
	return err
}

func (l *poisonedLink) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// copyFrames reads frames and passes them on, until an error.
func copyFrames(from io.Reader, pass func([]byte) error) {
	for {
		frame := make([]byte, headerSize)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame)>>8)...)
		if _, err := io.ReadFull(from, frame[headerSize:]); err != nil {
			return
		}
		if pass(frame) != nil {
			return
		}
	}
}

// poison makes the oldest connections reset new streams, and returns how many there are.
func (p *poisoner) poison(most int, code uint32) (links int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.links[:min(most, len(p.links))] {
		l.mu.Lock()
		l.code = code
		l.mu.Unlock()
		links++
	}
	return links
}

func (p *poisoner) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
