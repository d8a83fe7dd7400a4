// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
	"time"
)

// leaf returns the certificate of a pair. It fails the test if the key does not match.
func leaf(t *testing.T, issued keyPair, err error) *x509.Certificate {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issued.certificate, issued.key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestAuthority(t *testing.T) {
	ours, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	serverPair, serverErr := ours.server()
	server := leaf(t, serverPair, serverErr)
	clientPair, clientErr := ours.client("jo", []string{"a", "b"})
	client := leaf(t, clientPair, clientErr)
	if got := client.Subject; got.CommonName != "jo" || !slices.Equal(got.Organization, []string{"a", "b"}) {
		t.Errorf("got client %v, want jo in a and b", got)
	}
	for name, test := range map[string]struct {
		certificate *x509.Certificate
		authority   *authority
		host        string
		usage       x509.ExtKeyUsage
		after       time.Duration
		want        bool
	}{
		"server by address":         {server, ours, "127.0.0.1", x509.ExtKeyUsageServerAuth, 0, true},
		"server by name":            {server, ours, "localhost", x509.ExtKeyUsageServerAuth, 0, true},
		"server on another host":    {server, ours, "127.0.0.2", x509.ExtKeyUsageServerAuth, 0, false},
		"server as a client":        {server, ours, "", x509.ExtKeyUsageClientAuth, 0, false},
		"server of another cluster": {server, theirs, "127.0.0.1", x509.ExtKeyUsageServerAuth, 0, false},
		"client":                    {client, ours, "", x509.ExtKeyUsageClientAuth, 0, true},
		"client as a server":        {client, ours, "", x509.ExtKeyUsageServerAuth, 0, false},
		"client of another cluster": {client, theirs, "", x509.ExtKeyUsageClientAuth, 0, false},
		"client after a week":       {client, ours, "", x509.ExtKeyUsageClientAuth, 7 * 24 * time.Hour, true},
		"client, expired":           {client, ours, "", x509.ExtKeyUsageClientAuth, validity + time.Hour, false},
		"client, clock set back":    {client, ours, "", x509.ExtKeyUsageClientAuth, -time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(test.authority.bundle) {
				t.Fatal("the authority's bundle has no certificate")
			}
			_, err := test.certificate.Verify(x509.VerifyOptions{
				Roots: roots, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage},
				CurrentTime: time.Now().Add(test.after),
			})
			if (err == nil) != test.want {
				t.Errorf("got %v, want it verified: %v", err, test.want)
			}
		})
	}
}

func TestAuthorityIssuesNewCertificates(t *testing.T) {
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	first, err := a.client("jo", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.client("jo", nil)
	if err != nil {
		t.Fatal(err)
	}
	if one, two := leaf(t, first, nil), leaf(t, second, nil); one.SerialNumber.Cmp(two.SerialNumber) == 0 {
		t.Errorf("got serial number %v twice, want two", one.SerialNumber)
	}
	if _, err := a.client("", nil); err == nil {
		t.Error("a user without a name: got no error, want one")
	}
}
