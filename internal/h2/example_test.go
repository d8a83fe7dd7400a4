// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"

	"k8s.io/client-go/rest"
	clientgotransport "k8s.io/client-go/transport"

	"github.com/refwatch/refwatch/internal/h2"
)

// A config whose clients open as few connections as their watches need. ConfigFor of
// package objectcache does this.
func ExampleNew() {
	config := &rest.Config{Host: "https://kubernetes.example"}
	config.WrapTransport = clientgotransport.Wrappers(
		func(base http.RoundTripper) http.RoundTripper { return h2.New(base) }, // the innermost
		config.WrapTransport,
	)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%T\n", client.Transport)
	// Output: *h2.Transport
}

// lines is a Receiver. Its methods are called on the goroutine of the connection.
type lines struct {
	data  []byte
	ended chan error
}

func (l *lines) Data(data []byte) int {
	l.data = append(l.data, data...)
	return len(data) // the server may send as much again
}

func (l *lines) End(err error) { l.ended <- err }

// A watch whose data goes to a Receiver. No goroutine belongs to the stream.
func ExampleWithParking() {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, `{"type":"ADDED"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config.WrapTransport = func(base http.RoundTripper) http.RoundTripper { return h2.New(base) }
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()

	ctx, cancel := context.WithCancel(h2.WithParking(context.Background()))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/secrets?watch=true", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := client.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	body, ok := response.Body.(h2.Body)
	if !ok {
		fmt.Println(h2.WhyNoBody(ctx)) // read response.Body, on a goroutine
		return
	}
	l := &lines{ended: make(chan error, 1)}
	body.Receive(l) // returns at once
	err = <-l.ended
	fmt.Printf("%s%v\n", l.data, err)
	// Output:
	// {"type":"ADDED"}
	// EOF
}
