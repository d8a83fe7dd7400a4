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
	*controlPlane

	number   int // 0, or that of a replica
	cache    *watchCache
	listener net.Listener
	accepted chan net.Conn
	client   kubernetes.Interface
	requests context.Context // that of every request
	stop     context.CancelFunc

	mu       sync.Mutex
	http     []*http.Server // the last one gets new connections; the others have sent GOAWAY
	replicas []*Server
	closed   bool

	// running counts the goroutines of the server: its accept loop, connections and requests.
	running sync.WaitGroup
}

// controlPlane is what a server shares with its replicas.
type controlPlane struct {
	options    Options
	store      *store
	records    *recorder
	faults     faults
	authorizer authorizer
	tls        *authority // nil without TLS
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
	shared := &controlPlane{options: options, store: newStore(options.resources(), options.HistoryLimit), records: newRecorder()}
	if err := shared.store.createInitialNamespaces(); err != nil {
		return nil, err
	}
	if !options.InMemory || options.TLS {
		if shared.tls, err = newAuthority(); err != nil {
			return nil, fmt.Errorf("apiserver: %w", err)
		}
	}
	return shared.start(0)
}

// Replica starts another API server of the same etcd, as behind a load balancer: with the same objects, certificate and
// token, and with a listener and a watch cache of its own. [Server.Lag], [Server.CatchUp], [Server.GoAway],
// [Server.URL], [Server.Config] and [Server.Client] are about one server. All other methods are about both.
// [Request].Replica tells the requests apart: it is 1 for the first replica. Close of s closes the replica too.
func (s *Server) Replica() (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replica, err := s.start(len(s.replicas) + 1)
	if err != nil {
		return nil, err
	}
	s.replicas = append(s.replicas, replica)
	return replica, nil
}

// start starts a server.
func (p *controlPlane) start(number int) (*Server, error) {
	s := &Server{controlPlane: p, number: number, cache: p.store.newCache(), accepted: make(chan net.Conn)}
	var err error
	if s.listener, err = p.listen(); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	s.requests, s.stop = context.WithCancel(context.Background())
	if s.client, err = s.newClient(); err != nil {
		_ = s.listener.Close()
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	s.running.Go(s.accept)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serveLocked()
	return s, nil
}

func (p *controlPlane) listen() (net.Listener, error) {
	if p.options.InMemory {
		return newMemoryListener(), nil
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

func (s *Server) newHTTPServer() *http.Server {
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
		BaseContext: func(net.Listener) context.Context { return s.requests },
	}
	if s.tls != nil {
		server.TLSConfig = s.tls.serverConfig()
	}
	return server
}

// accept passes connections on, until the listener is closed.
func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		select {
		case s.accepted <- conn:
		case <-s.requests.Done():
			_ = conn.Close()
		}
	}
}

// serveLocked starts an HTTP server for new connections, and returns the one before, or nil.
func (s *Server) serveLocked() (previous *http.Server) {
	server := s.newHTTPServer()
	if len(s.http) > 0 {
		previous = s.http[len(s.http)-1]
	}
	s.http = append(s.http, server)
	s.running.Go(func() {
		connections := &connections{Listener: s.listener, accepted: s.accepted, closed: make(chan struct{})}
		// Both return when connections is closed. No caller needs their errors.
		if s.tls != nil {
			_ = server.ServeTLS(connections, "", "")
		} else {
			_ = server.Serve(connections)
		}
	})
	return previous
}

// GoAway sends a GOAWAY on each HTTP/2 connection of this server, as a kube-apiserver that shuts down does: requests
// and watches go on, but later requests need another connection, which the server accepts. Connections close after
// their last request. Over HTTP/1.1, where a request may fail because of it, connections close after the response under
// way. For a GOAWAY on one connection see [Middleware].
func (s *Server) GoAway() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	previous := s.serveLocked()
	s.mu.Unlock()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = previous.Shutdown(ended) // returns at once, with the error of its context
}

// trackConnection counts connections in running, so that Close can wait for their goroutines. The loop that serves
// connections reports new ones and is counted itself, so that running is never zero here.
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
	servers, replicas := s.http, s.replicas
	s.mu.Unlock()
	for _, replica := range replicas {
		replica.Close()
	}
	s.stop()
	// These fail only because the listener or a connection is already closed.
	_ = s.listener.Close()
	for _, server := range servers {
		_ = server.Close()
	}
	s.running.Wait()
}

// ResourceVersion returns the version of the newest write.
func (s *Server) ResourceVersion() string { return formatVersion(s.store.currentVersion()) }
