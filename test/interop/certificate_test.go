// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/util/cert"
)

// certificate returns a certificate for 127.0.0.1 with its CA, and its key, in PEM.
var certificate = sync.OnceValues(func() (certPEM, keyPEM []byte) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		panic(err)
	}
	return certPEM, keyPEM
})

// serverTLS returns the TLS config of an HTTP/2 server in this process.
func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate())
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
}

// writeCertificate writes the files of a front end into a folder: tls.crt, tls.key, and both in tls.pem.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	certPEM, keyPEM := certificate()
	for name, content := range map[string][]byte{
		"tls.crt": certPEM, "tls.key": keyPEM, "tls.pem": append(append([]byte{}, certPEM...), keyPEM...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
