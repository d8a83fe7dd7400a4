// SPDX-License-Identifier: Apache-2.0

package derived_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/derived"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// serveSecret starts an API server with a Secret, and a store of Secrets.
func serveSecret() (*apiserver.Server, *objectcache.WatchStore[*corev1.Secret], func()) {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"user": []byte("ada")}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(context.Background(), secret, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	store, err := objectcache.NewWatchStore(resource.Secrets(server.Client()), objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	return server, store, func() {
		cancel()
		if err := <-ended; err != nil {
			panic(err)
		}
		server.Close()
	}
}

// What a program parses from an object is computed once per version.
func ExampleNew() {
	_, store, stop := serveSecret()
	defer stop()
	store.AddReference("default", "tls", "gateway")

	greetings := derived.New(store, func(secret *corev1.Secret) (string, error) {
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

// A bad version does not end what the last good one has begun. Err says that it is bad.
func ExampleValues_KeepLast() {
	server, store, stop := serveSecret()
	defer stop()
	store.AddReference("default", "tls", "gateway")

	users := derived.New(store, func(secret *corev1.Secret) (string, error) {
		if len(secret.Data["user"]) == 0 {
			return "", errors.New("no user")
		}
		return string(secret.Data["user"]), nil
	}).KeepLast()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for change := range store.Changes(ctx) {
		user, err := users.TryGet("default", "tls")
		fmt.Println(user, err, users.Err("default", "tls"))
		if len(change.Object.Data["user"]) == 0 {
			break
		}
		empty := change.Object.DeepCopy()
		empty.Data["user"] = nil
		if _, err := server.Client().CoreV1().Secrets("default").Update(ctx, empty, metav1.UpdateOptions{}); err != nil {
			panic(err)
		}
	}
	// Output:
	// ada <nil> <nil>
	// ada <nil> derive from "default/tls": no user
}

// gateway ends TLS with certificates from Secrets.
type gateway struct {
	certificates *derived.Values[*tls.Certificate]
}

// A TLS handshake neither waits nor parses: TryGet returns the parsed certificate.
func ExampleValues_TryGet() {
	_, store, stop := serveSecret()
	defer stop()
	store.AddReference("default", "tls", "gateway")
	if _, err := store.Get(context.Background(), "default", "tls"); err != nil {
		panic(err)
	}

	g := gateway{derived.New(store, func(secret *corev1.Secret) (*tls.Certificate, error) {
		certificate, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		if err != nil {
			return nil, errors.New("tls.crt is no certificate in PEM, or tls.key is not its key") // err may quote the data
		}
		return &certificate, nil
	})}
	config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return g.certificates.TryGet("default", "tls") // choose the name by the server name of the hello
	}}
	_, err := config.GetCertificate(nil)
	fmt.Println(err)
	// Output: derive from "default/tls": tls.crt is no certificate in PEM, or tls.key is not its key
}
