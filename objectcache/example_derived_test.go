// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"crypto/tls"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// What a program parses from an object is computed once per version.
func ExampleNewDerived() {
	_, store, stop := serveSecret(objectcache.WatchOptions{})
	defer stop()
	store.AddReference("default", "tls", "gateway")

	greetings := objectcache.NewDerived(store, func(secret *corev1.Secret) (string, error) {
		fmt.Println("computing")
		return "hello, " + string(secret.Data["user"]), nil
	})
	for range 3 {
		greeting, err := greetings.Get(context.Background(), "default", "tls")
		fmt.Println(greeting, err)
	}
	// Output:
	// computing
	// hello, ada <nil>
	// hello, ada <nil>
	// hello, ada <nil>
}

// gateway ends TLS with certificates from Secrets.
type gateway struct {
	certificates *objectcache.Derived[*tls.Certificate]
}

// A TLS handshake neither waits nor parses: TryGet returns the parsed certificate.
func ExampleDerived_TryGet() {
	_, store, stop := serveSecret(objectcache.WatchOptions{})
	defer stop()
	store.AddReference("default", "tls", "gateway")
	if _, err := store.Get(context.Background(), "default", "tls"); err != nil {
		panic(err)
	}

	g := gateway{objectcache.NewDerived(store, func(secret *corev1.Secret) (*tls.Certificate, error) {
		certificate, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		return &certificate, err
	})}
	config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return g.certificates.TryGet("default", "tls") // choose the name by the server name of the hello
	}}
	_, err := config.GetCertificate(nil)
	fmt.Println(err)
	// Output: derive from "default/tls": tls: failed to find any PEM data in certificate input
}
