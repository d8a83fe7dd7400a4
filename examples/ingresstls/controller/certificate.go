// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Certificate is the certificate in one version of a Secret. It is shared: do not change it.
type Certificate struct {
	tls.Certificate // with its Leaf

	// Secret and Version are the key and the resourceVersion of the Secret.
	Secret  types.NamespacedName
	Version string
}

// parse returns the certificate of a Secret. Its errors quote no data: see keyPair.
func parse(secret *corev1.Secret) (*Certificate, error) {
	if secret.Type != corev1.SecretTypeTLS {
		return nil, fmt.Errorf("the Secret has the type %q, and not %q", secret.Type, corev1.SecretTypeTLS)
	}
	pair, err := keyPair(secret)
	if err != nil {
		return nil, err
	}
	return &Certificate{
		Certificate: pair,
		Secret:      types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name},
		Version:     secret.ResourceVersion,
	}, nil
}

// checkHost returns an error if the certificate is not valid for a host, which may be a wildcard. Of the certificate it
// has the DNS names only, which are public.
func (c *Certificate) checkHost(host string) error {
	// Its error is not wrapped: it quotes more of the certificate.
	if c.Leaf.VerifyHostname(host) != nil {
		return fmt.Errorf("the certificate of Secret %q is not valid for the host %q: it is for %s", c.Secret, host, dnsNames(c.Leaf))
	}
	return nil
}

// dnsNames returns the first five DNS names of a certificate, quoted.
func dnsNames(c *x509.Certificate) string {
	const most = 5
	var shown []string
	for _, name := range c.DNSNames[:min(most, len(c.DNSNames))] {
		shown = append(shown, fmt.Sprintf("%.253q", name)) // no DNS name is longer
	}
	switch more := len(c.DNSNames) - len(shown); {
	case len(shown) == 0:
		return "no DNS name"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// checkTime returns an error if the certificate is not valid now.
func (c *Certificate) checkTime(now time.Time) error {
	switch {
	case now.After(c.Leaf.NotAfter):
		return fmt.Errorf("the certificate of Secret %q expired at %s", c.Secret, c.Leaf.NotAfter.Format(time.RFC3339))
	case now.Before(c.Leaf.NotBefore):
		return fmt.Errorf("the certificate of Secret %q is not valid before %s", c.Secret, c.Leaf.NotBefore.Format(time.RFC3339))
	}
	return nil
}
