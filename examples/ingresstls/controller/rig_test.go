// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/examples/ingresstls/ca"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

// ns is the namespace of the tests' objects, and never a time that any outage or refusal outlasts.
const (
	ns    = metav1.NamespaceDefault
	never = time.Hour
)

// rig is an API server, an authority for certificates and a controller, in a bubble of testing/synctest.
type rig struct {
	*testing.T

	server     *apiserver.Server
	authority  *ca.Authority
	controller *Controller
}

// inBubble runs f in a bubble. The controller does not run before f calls start.
func inBubble(t *testing.T, options Options, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, server: apiserver.New(t, apiserver.Options{InMemory: true})}
		var err error
		if r.authority, err = ca.New(); err != nil {
			t.Fatal(err)
		}
		if options.Client, err = manager.ClientFor(r.server.Config()); err != nil {
			t.Fatal(err)
		}
		if r.controller, err = New(options); err != nil {
			t.Fatal(err)
		}
		f(t, r)
	})
}

// start runs the controller, waits until nothing happens any more, and returns a function that stops it.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), ktesting.NewLogger(r, ktesting.DefaultConfig)))
	done := make(chan error, 1)
	go func() { done <- r.controller.Run(ctx) }()
	synctest.Wait()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.Errorf("Run: got error %v, want none", err)
		}
	})
}

// must fails the test if a call on the server has failed.
func (r *rig) must(_ any, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// ingress creates an Ingress with one entry of spec.tls, a second after the one before: the next is younger.
func (r *rig) ingress(name, secret string, hosts ...string) {
	r.Helper()
	time.Sleep(time.Second)
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.TLS = []networkingv1.IngressTLS{{SecretName: secret, Hosts: hosts}}
	r.must(r.server.Client().NetworkingV1().Ingresses(ns).Create(r.Context(), i, metav1.CreateOptions{}))
	synctest.Wait()
}

func (r *rig) deleteIngress(name string) {
	r.Helper()
	r.must(nil, r.server.Client().NetworkingV1().Ingresses(ns).Delete(r.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// secret creates a TLS Secret with a new certificate, and returns its serial number.
func (r *rig) secret(name string, hosts ...string) (serial int64) {
	r.Helper()
	s, err := r.authority.Secret(ns, name, hosts...)
	r.must(s, err)
	r.must(r.server.Client().CoreV1().Secrets(ns).Create(r.Context(), s, metav1.CreateOptions{}))
	synctest.Wait()
	return serialOf(s.Data)
}

// rotate replaces the certificate of a Secret, and returns the serial number of the new one.
func (r *rig) rotate(name string, hosts ...string) (serial int64) {
	r.Helper()
	data, err := r.authority.Issue(time.Now().Add(never), hosts...)
	r.must(data, err)
	r.setData(name, data)
	return serialOf(data)
}

func (r *rig) setData(name string, data map[string][]byte) {
	r.Helper()
	secrets := r.server.Client().CoreV1().Secrets(ns)
	s, err := secrets.Get(r.Context(), name, metav1.GetOptions{})
	r.must(s, err)
	s.Data = data
	r.must(secrets.Update(r.Context(), s, metav1.UpdateOptions{}))
	synctest.Wait()
}

func (r *rig) deleteSecret(name string) {
	r.Helper()
	r.must(nil, r.server.Client().CoreV1().Secrets(ns).Delete(r.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

func serialOf(data map[string][]byte) int64 {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return 0
	}
	return pair.Leaf.SerialNumber.Int64()
}

// handshake makes a TLS handshake for a host as a client that trusts the authority only. It returns the serial number
// of the certificate.
func (r *rig) handshake(host string) (int64, error) {
	clientSide, serverSide := net.Pipe()
	// A pipe has no buffer: a client that sends an alert while the server writes waits for the server to give up.
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	server := tls.Server(serverSide, &tls.Config{GetCertificate: r.controller.GetCertificate, SessionTicketsDisabled: true})
	var running sync.WaitGroup
	running.Go(func() { _ = server.HandshakeContext(ctx); _ = serverSide.Close() })
	defer running.Wait()
	defer clientSide.Close() //nolint:errcheck // a pipe
	client := tls.Client(clientSide, &tls.Config{ServerName: host, RootCAs: r.authority.Pool()})
	if err := client.HandshakeContext(r.Context()); err != nil {
		return 0, err
	}
	return client.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// presents checks that a handshake for the host presents the certificate with the serial number.
func (r *rig) presents(host string, serial int64) {
	r.Helper()
	if got, err := r.handshake(host); err != nil || got != serial {
		r.Errorf("handshake for %s: got serial number %d and error %v, want %d", host, got, err, serial)
	}
}

// refuses checks that a handshake for the host ends with the alert unrecognized_name.
func (r *rig) refuses(host string) {
	r.Helper()
	const want = "remote error: tls: unrecognized name"
	if got, err := r.handshake(host); err == nil || err.Error() != want {
		r.Errorf("handshake for %s: got serial number %d and error %v, want %q", host, got, err, want)
	}
}

// status returns the status of a host that an Ingress names.
func (r *rig) status(host string) HostStatus {
	r.Helper()
	status, ok := r.controller.HostStatus(host)
	if !ok {
		r.Errorf("status of %s: got none", host)
	}
	return status
}
