// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	clientgotransport "k8s.io/client-go/transport"

	"github.com/refwatch/refwatch/reflector/transport"
)

// A config whose clients open as few connections as their watches need. ConfigFor of
// package objectcache does this.
func ExampleNew() {
	config := &rest.Config{Host: "https://kubernetes.example"}
	config.WrapTransport = clientgotransport.Wrappers(
		func(base http.RoundTripper) http.RoundTripper { return transport.New(base) }, // the innermost
		config.WrapTransport,
	)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%T\n", client.Transport)
	// Output: *transport.Transport
}
