// SPDX-License-Identifier: Apache-2.0

// Package web serves HTTPS with the certificates of a [controller.Controller]. It answers each request with the
// certificate that the connection presented. Routing to the backends of Ingresses is not part of this example.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/ingresstls/controller"
)

const (
	headerTimeout = 10 * time.Second // for the handshake, and for the header of each request
	idleTimeout   = time.Minute      // of a connection without a request
	drainTimeout  = 10 * time.Second // for the requests that are under way when Serve ends
)

// Serve serves HTTPS on a listener until ctx ends. Then it closes the listener, waits for the requests that are under
// way, for 10 seconds at most, and closes their connections.
func Serve(ctx context.Context, listener net.Listener, certificates *controller.Controller) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(answer),
		TLSConfig:         tlsConfig(certificates),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          log.New(handshakeErrors{klog.FromContext(ctx)}, "", 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, presentedKey{}, &presented{})
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), drainTimeout,
		fmt.Errorf("requests were still under way after %v", drainTimeout))
	defer cancel()
	err := server.Shutdown(drain)
	if err != nil {
		err = errors.Join(context.Cause(drain), server.Close())
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// tlsConfig returns a config that presents the certificates of the controller.
func tlsConfig(certificates *controller.Controller) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// A resumed session presents no certificate. It would outlive the rotation of the certificate, and its Ingress.
		SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate := certificates.Certificate(hello.ServerName)
			if certificate == nil {
				return nil, nil //nolint:nilnil // the client gets the alert unrecognized_name
			}
			if p, ok := hello.Context().Value(presentedKey{}).(*presented); ok {
				p.Store(certificate)
			}
			return &certificate.Certificate, nil
		},
	}
}

// presented is the certificate that a connection presented. It is in the context of the connection's handshake and of
// its requests.
type (
	presented struct {
		atomic.Pointer[controller.Certificate]
	}
	presentedKey struct{}
)

// answer answers with what the connection presented.
func answer(w http.ResponseWriter, r *http.Request) {
	p, _ := r.Context().Value(presentedKey{}).(*presented)
	certificate := p.Load()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "host    %s\nserial  %v\nexpires %s\nsecret  %s, resourceVersion %s\n",
		r.TLS.ServerName, certificate.Leaf.SerialNumber, certificate.Leaf.NotAfter.Format(time.RFC3339),
		certificate.Secret, certificate.Version)
}

// handshakeErrors logs what net/http reports about connections: failed handshakes of clients, mostly.
type handshakeErrors struct{ logger klog.Logger }

func (h handshakeErrors) Write(p []byte) (int, error) {
	h.logger.V(4).Info("Connection failed", "err", string(p))
	return len(p), nil
}
