// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/examples/ingresstls/ca"
	"github.com/refwatch/refwatch/examples/ingresstls/controller"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

// timeout bounds each wait. A test that passes does not reach it.
const timeout = time.Minute

// rig is an API server that can be killed and restarted, a controller, and an HTTPS server on a loopback port.
type rig struct {
	*testing.T

	authority  *ca.Authority
	trusted    *x509.CertPool // the authority only
	controller *controller.Controller
	address    string
	stop       func() error // stops the HTTPS server, and returns its error

	mu     sync.Mutex
	server *apiserver.Server // closed while it is killed
}

// newRig starts all. prepare creates objects before.
func newRig(t *testing.T, prepare func(*rig)) *rig {
	r := &rig{T: t}
	var err error
	if r.authority, err = ca.New(); err != nil {
		t.Fatal(err)
	}
	r.trusted = r.authority.Pool()
	r.server = r.newServer()
	config := r.server.Config()
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return r.apiServer().Config().Dial(ctx, network, address) // a killed server refuses connections
	}
	client, err := manager.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if r.controller, err = controller.New(controller.Options{Client: client}); err != nil {
		t.Fatal(err)
	}
	prepare(r)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- r.controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: got error %v, want none", err)
		}
		r.apiServer().Close()
	})
	r.serve()
	return r
}

// serve starts the HTTPS server when the certificates are in memory.
func (r *rig) serve() {
	wait, cancelWait := context.WithTimeout(r.Context(), timeout)
	defer cancelWait()
	if err := r.controller.WaitForSync(wait); err != nil {
		r.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	r.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, r.controller) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-served })
	r.Cleanup(func() {
		if err := r.stop(); err != nil {
			r.Errorf("Serve: got error %v, want none", err)
		}
	})
}

func (r *rig) newServer() *apiserver.Server {
	r.Helper()
	server, err := apiserver.Start(apiserver.Options{InMemory: true, Token: "t"})
	if err != nil {
		r.Fatal(err)
	}
	return server
}

func (r *rig) apiServer() *apiserver.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}

func (r *rig) admin() kubernetes.Interface { return r.apiServer().Client() }

// kill closes the API server. restart starts another one with the same state, at the same address.
func (r *rig) kill() (restart func()) {
	state := r.apiServer().Snapshot()
	r.apiServer().Close()
	return func() {
		server := r.newServer()
		server.Restore(state)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.server = server
	}
}

// create creates an Ingress and its Secret for a host.
func (r *rig) create(name, host string) {
	r.Helper()
	secret, err := r.authority.Secret("default", name, host)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := r.admin().CoreV1().Secrets("default").Create(r.Context(), secret, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: name, Hosts: []string{host}}}
	if _, err := r.admin().NetworkingV1().Ingresses("default").Create(r.Context(), ingress, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// rotate replaces the certificate of a Secret, and returns the serial number of the new one.
func (r *rig) rotate(name, host string) int64 {
	r.Helper()
	secret, err := r.authority.Secret("default", name, host)
	if err != nil {
		r.Fatal(err)
	}
	r.update(secret)
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		r.Fatal(err)
	}
	return pair.Leaf.SerialNumber.Int64()
}

func (r *rig) update(secret *corev1.Secret) {
	r.Helper()
	if _, err := r.admin().CoreV1().Secrets("default").Update(r.Context(), secret, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// await waits until the status of a host meets a condition.
func (r *rig) await(host, what string, condition func(controller.HostStatus) bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	for {
		changed := r.controller.Changed() // before the status, so that no change is missed
		status, _ := r.controller.HostStatus(host)
		if condition(status) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			r.Fatalf("%s: got status %+v, want %s", host, status, what)
		}
	}
}

// awaitSerial waits until clients of a host get the certificate with a serial number.
func (r *rig) awaitSerial(host string, serial int64) {
	r.Helper()
	r.await(host, fmt.Sprintf("serial number %d", serial), func(s controller.HostStatus) bool {
		return s.Certificate != nil && s.Certificate.Leaf.SerialNumber.Int64() == serial
	})
}

// handshake makes a TLS handshake for a host, in a connection of its own, as a client that trusts the authority only.
// It returns the serial number of the certificate.
func (r *rig) handshake(host string) (int64, error) {
	dialer := &tls.Dialer{Config: &tls.Config{
		ServerName: host, RootCAs: r.trusted, MinVersion: tls.VersionTLS12,
		CurvePreferences: []tls.CurveID{tls.CurveP256}, // the cheapest with the race detector
	}}
	conn, err := dialer.DialContext(r.Context(), "tcp", r.address)
	if err != nil {
		return 0, fmt.Errorf("handshake for %s: %w", host, err)
	}
	defer conn.Close() //nolint:errcheck // the handshake is all that counts
	client := conn.(*tls.Conn)
	// Close with a reset: ports that wait for late packets would run out in repeated tests.
	if err := client.NetConn().(*net.TCPConn).SetLinger(0); err != nil {
		return 0, err
	}
	return client.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}
