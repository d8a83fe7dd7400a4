// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

const (
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second // of a whole response: metrics and the page of debug are large
	idleTimeout     = 90 * time.Second
	shutdownTimeout = 3 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Server serves a handler on one address. Make one with [Listen], then call Run once.
type Server struct {
	listener net.Listener
}

// Listen binds the address. Requests wait until Run serves them.
func Listen(ctx context.Context, address string) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("binding the address for health checks and metrics: %w: choose another --bind-address, or 0", err)
	}
	return &Server{listener: listener}, nil
}

// URL returns the URL of the server.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close closes a server whose Run is not called.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends. Then it waits up to 3 s for requests under way, and closes their connections.
func (s *Server) Run(ctx context.Context, handler http.Handler) error {
	server := &http.Server{
		Handler:        handler,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       klog.NewStandardLogger("INFO"),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving health checks and metrics: %w", err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(wait); err != nil {
		_ = server.Close() // the connections that did not end in time
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
