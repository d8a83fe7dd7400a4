// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientgotransport "k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/refwatch/refwatch/internal/h2"
)

// ConfigFor returns a copy of config for a client with many streams. It suits every
// kind of client: a clientset, a generated client, dynamic, metadata.
//
//   - It prefers responses in protobuf, which are smaller and cheaper to decode, and
//     accepts JSON for objects that have no protobuf encoding.
//   - It has no rate limit (QPS, burst, rate limiter). A Gate bounds
//     the requests instead, and opens first what a Get waits for.
//   - It has no Timeout, which would end every stream.
//   - It has connections of its own. kube-apiserver limits the number of streams on
//     a connection, and long ones would block other calls of the program.
//   - The watches of stores use a transport that opens only as many connections as they
//     need, and its open, quiet streams have no goroutine. Other watches of the client, such
//     as those of informers, use client-go's transport.
//
// If config has a Transport, it is used as it is, without the transport above: its
// connections may be shared, and its streams keep the header of the response and cannot
// be parked. So net/http reads the streams of a program that does without the transport above:
//
//	transport, err := rest.TransportFor(config)
//	config = resource.ConfigFor(&rest.Config{Host: config.Host, UserAgent: config.UserAgent, Transport: transport})
//
// The proxy is that of config, else that of the environment. ConfigFor(nil) returns nil.
//
// The transport above is part of WrapTransport of the copy. To wrap more, call Wrap of
// the copy, or set WrapTransport of config before: a WrapTransport that is set on the
// copy removes it. Set no Transport on the copy, and leave its Proxy: the http.Transport below
// must be that of the copy alone. The same holds for a client that takes an http.Client, such as
// kubernetes.NewForConfigAndClient: make that from the copy, by rest.HTTPClientFor.
func ConfigFor(config *rest.Config) *rest.Config {
	if config == nil {
		return nil
	}
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter, config.Timeout = -1, nil, 0
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if config.Transport == nil {
		if config.Proxy == nil {
			// This is client-go's default. If it is set, client-go shares no
			// connections with clients of the same config: it cannot compare
			// functions.
			config.Proxy = http.ProxyFromEnvironment
		}
		config.WrapTransport = clientgotransport.Wrappers(streamTransport, config.WrapTransport) // the first is the innermost
	}
	return config
}

// streamTransport stands next to the transport of client-go, under all wrappers.
func streamTransport(base http.RoundTripper) http.RoundTripper { return h2.New(base) }

// Rate limiters of clients, which delay streams.

// ErrClientLimited is joined to ErrNotSynced of objectcache when the context of a Get ended
// and the client has a rate limiter of its own. client-go's default allows five
// requests a second, and the first reads of many objects wait for it. A client
// of the config that [ConfigFor] returns has none: the Gate of a store bounds the
// requests.
var ErrClientLimited = errors.New("use the config that resource.ConfigFor returns, or one with QPS -1")

// rateLimitError returns an error with the rate limit of the client, and nil if it
// has none. A source of FromSource hides its limit.
func (r *Resource[T]) rateLimitError() error {
	if r.rest == nil {
		return nil
	}
	limiter := r.rest.Client.GetRateLimiter()
	if isNil(limiter) || reflect.TypeOf(limiter) == reflect.TypeOf(flowcontrol.NewFakeAlwaysRateLimiter()) {
		return nil
	}
	return fmt.Errorf("the client limits itself to %v requests a second: %w", limiter.QPS(), ErrClientLimited)
}
