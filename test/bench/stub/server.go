// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// StreamsPerConnection is kube-apiserver's default of --http2-max-streams-per-connection.
const StreamsPerConnection = 100

// Server serves Secrets of one namespace.
type Server struct {
	latency  time.Duration // of each answer
	listener net.Listener
	ca       []byte
	running  sync.WaitGroup // accept, and one for each connection

	mu      sync.Mutex
	closed  bool
	version uint64             // the newest resource version
	secrets map[string]*secret // by name
	conns   map[*conn]struct{}
	stats   Stats // without Connections
}

// secret is a Secret and its watches.
type secret struct {
	encoded []byte // nil: it does not exist
	version uint64
	watches map[*stream]struct{}
}

// Stats are numbers of a server.
type Stats struct {
	Streams     int // open watches
	Waiting     int // requests that wait for their answers
	Connections int // open
	Accepted    int // connections so far
	Refused     int // streams so far that exceeded the limit of their connection
}

// Start starts a server without Secrets on a free port of the loopback interface. It answers each request after the
// latency; what follows an answer is not delayed.
func Start(latency time.Duration) (*Server, error) {
	certificate, ca, err := newCertificate()
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, SessionTicketsDisabled: true,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{latency: latency, listener: listener, ca: ca, secrets: map[string]*secret{}, conns: map[*conn]struct{}{}}
	s.running.Go(s.accept)
	return s, nil
}

// Host returns the server's address as rest.Config has it.
func (s *Server) Host() string { return "https://" + s.listener.Addr().String() }

// CA returns the certificate of the server's authority, in PEM.
func (s *Server) CA() []byte { return s.ca }

// Close closes all connections and waits for their goroutines.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		err = errors.Join(err, c.net.NetConn().Close())
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	for {
		accepted, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		c := newConn(s, accepted.(*tls.Conn))
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = accepted.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.stats.Accepted++
		s.running.Go(c.serve)
		s.mu.Unlock()
	}
}

// Stats returns the numbers at this moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Connections = len(s.conns)
	return stats
}

// Put creates or updates a Secret, and returns when its watches have been sent the event. It sets the resource version
// of object. Calls for one Secret must not overlap.
func (s *Server) Put(ctx context.Context, object *corev1.Secret) error {
	s.mu.Lock()
	s.version++
	version := s.version
	s.mu.Unlock()
	object.ResourceVersion = strconv.FormatUint(version, 10)
	encoded, err := encode(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	kept := s.secretLocked(object.Name)
	kind := watch.Modified
	if kept.encoded == nil {
		kind = watch.Added
	}
	kept.encoded, kept.version = encoded, version
	watches := slices.Collect(maps.Keys(kept.watches))
	s.mu.Unlock()
	if len(watches) == 0 {
		return nil
	}
	event, err := frame(kind, encoded)
	for _, watch := range watches {
		err = errors.Join(err, watch.conn.sendEvent(ctx, watch, event))
	}
	return err
}

// secretLocked returns the entry of a name, which it adds if it is missing.
func (s *Server) secretLocked(name string) *secret {
	kept := s.secrets[name]
	if kept == nil {
		kept = &secret{watches: map[*stream]struct{}{}}
		s.secrets[name] = kept
	}
	return kept
}

// Neighbours returns the names of the Secrets whose watches share the connection of that of a name.
func (s *Server) Neighbours(name string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := map[*conn]bool{}
	if kept := s.secrets[name]; kept != nil {
		for watch := range kept.watches {
			shared[watch.conn] = true
		}
	}
	for other, kept := range s.secrets {
		for watch := range kept.watches {
			if other != name && shared[watch.conn] {
				names = append(names, other)
			}
		}
	}
	return names
}

// register adds a watch, and returns the events that begin it. The caller holds the lock of its connection, so that no
// later event can overtake them.
func (s *Server) register(r request, watching *stream) (events []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.secretLocked(r.name)
	kept.watches[watching] = struct{}{}
	s.stats.Streams++
	if kept.encoded != nil && kept.version > r.version {
		if events, err = frame(watch.Added, kept.encoded); err != nil {
			return nil, err
		}
	}
	if r.initialEvents {
		bookmark, err := bookmark(s.version)
		return append(events, bookmark...), err
	}
	return events, nil
}

// unregister removes a watch.
func (s *Server) unregister(name string, watching *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.secrets[name]; kept != nil {
		if _, ok := kept.watches[watching]; ok {
			delete(kept.watches, watching)
			s.stats.Streams--
		}
	}
}

// list returns the answer to a list.
func (s *Server) list(name string) ([]byte, error) {
	s.mu.Lock()
	var encoded []byte
	if kept := s.secrets[name]; kept != nil {
		encoded = kept.encoded
	}
	version := s.version
	s.mu.Unlock()
	return listOf(encoded, version)
}

func (s *Server) waiting(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Waiting += more
}

func (s *Server) refused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Refused++
}
