// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Server is a running API server. Its methods are safe for concurrent use.
type Server struct {
	options    Options
	store      *store
	records    *recorder
	faults     faults
	authorizer authorizer
	listener   net.Listener
	tls        *authority // nil without TLS
	http       *http.Server
	client     kubernetes.Interface
	stop       context.CancelFunc // ends the context of every request

	mu     sync.Mutex
	closed bool

	// running counts the goroutines of the server: its accept loop, connections and requests.
	running sync.WaitGroup
}

// New starts a server and closes it when the test ends. It fails the test if the server cannot start.
func New(tb testing.TB, options Options) *Server {
	tb.Helper()
	s, err := Start(options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server. The caller must Close it. It returns an error if an option is out of range, or if it cannot
// listen on a loopback port.
func Start(options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: options,
		store:   newStore(options.resources(), options.HistoryLimit),
		records: newRecorder(),
	}
	if err := s.store.createInitialNamespaces(); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.http = s.newHTTPServer(ctx)
	if s.client, err = s.newClient(); err != nil {
		_ = s.listener.Close()
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	s.running.Go(s.serve)
	return s, nil
}

func (s *Server) listen() error {
	var err error
	if !s.options.InMemory || s.options.TLS {
		if s.tls, err = newAuthority(); err != nil {
			return err
		}
	}
	if s.options.InMemory {
		s.listener = newMemoryListener()
		return nil
	}
	s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	return err
}

func (s *Server) newHTTPServer(ctx context.Context) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!s.options.DisableHTTP2 && s.tls != nil)
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: s.options.MaxStreamsPerConnection},
		ReadHeaderTimeout: 32 * time.Second, // as in kube-apiserver
		// net/http logs only about clients that disconnected.
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnState:   s.trackConnection,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if s.tls != nil {
		server.TLSConfig = s.tls.serverConfig()
	}
	return server
}

func (s *Server) serve() {
	// Both return when the listener is closed. No caller needs their errors.
	if s.tls != nil {
		_ = s.http.ServeTLS(s.listener, "", "")
	} else {
		_ = s.http.Serve(s.listener)
	}
}

// trackConnection counts connections in running, so that Close can wait for their goroutines. The accept loop reports
// new connections and is counted itself, so that running is never zero here.
func (s *Server) trackConnection(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.running.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			// It was accepted while Close ran, too late for net/http's Close to see it.
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.running.Done()
	}
}

// begin counts a request in running, and returns false if the server is closing. HTTP/2 handlers have goroutines of
// their own, which may start after their connection has ended.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// Close ends all streams, closes all connections, and returns when every goroutine of the server has ended. It may be
// called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	// It fails only because the listener or a connection is already closed.
	_ = s.http.Close()
	s.running.Wait()
}

// ResourceVersion returns the version of the newest write.
func (s *Server) ResourceVersion() string { return formatVersion(s.store.currentVersion()) }
