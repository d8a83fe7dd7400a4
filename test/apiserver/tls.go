// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// authority is the certificate authority of one server, and the certificate that it has issued to the server. Both may
// be replaced.
type authority struct {
	mu     sync.Mutex
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey // of the CA
	pem    []byte            // the CA's certificate
	server tls.Certificate
}

// newAuthority generates new keys. ECDSA keys take less than a millisecond, so that none need to be kept on disk.
func newAuthority() (*authority, error) {
	a := &authority{}
	return a, a.renew()
}

// renew replaces the CA and the server's certificate.
func (a *authority) renew() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("creating the CA key: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: "refwatch test CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("creating the CA certificate: %w", err)
	}
	server, err := issue(ca, key)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ca, a.key, a.server = ca, key, server
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return nil
}

// reissue replaces the server's certificate.
func (a *authority) reissue() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	server, err := issue(a.ca, a.key)
	if err == nil {
		a.server = server
	}
	return err
}

// issue returns a new certificate for the server.
func issue(ca *x509.Certificate, caKey *ecdsa.PrivateKey) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("creating the server key: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: "refwatch test API server"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default.svc", memoryHost},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("creating the server certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// newSerial returns a random serial number.
func newSerial() *big.Int {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // never fails
	return new(big.Int).SetBytes(bytes[:])
}

// caPEM returns the CA's certificate.
func (a *authority) caPEM() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pem
}

func (a *authority) serverConfig() *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		server := a.server
		return &server, nil
	}, MinVersion: tls.VersionTLS12}
}

// RotateCertificate replaces the server's certificate by a new one of the same CA. Open connections go on. It returns
// an error if the server has no TLS.
func (s *Server) RotateCertificate() error { return s.rotate((*authority).reissue) }

// RotateCA replaces the CA and the server's certificate. Open connections go on; a client connects again only if it
// trusts the new CA, which [Server.Config] has from now on, and so not [Server.Client]. It returns an error if the
// server has no TLS.
func (s *Server) RotateCA() error { return s.rotate((*authority).renew) }

func (s *Server) rotate(f func(*authority) error) error {
	if s.tls == nil {
		return errors.New("apiserver: no certificate to rotate: set Options.TLS")
	}
	if err := f(s.tls); err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	return nil
}

// randomToken returns a new random bearer token.
func randomToken() string { return rand.Text() }
