// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// ClientFor returns a client made of [ConfigFor]. It writes protobuf too.
func ClientFor(config *rest.Config) (kubernetes.Interface, error) {
	if config == nil {
		return nil, errors.New("client for many streams: the config is nil")
	}
	config = ConfigFor(config)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for many streams: %w", err)
	}
	return client, nil
}

// ConfigFor returns a config for a client that suits many streams, of whatever
// sort: a clientset, a client generated for kinds of your own, dynamic, metadata.
// It leaves config alone:
//
//   - It prefers answers in protobuf, which are smaller on the wire and cheaper to
//     decode, and takes JSON for what has no protobuf.
//   - It has no limit of its own (QPS, burst, rate limiter): the
//     [objectcache.Gate] bounds what is asked for at
//     a time, and lets go first what somebody waits for.
//   - It has no Timeout, which would end every stream.
//   - It has connections of its own. kube-apiserver allows a bounded number of
//     streams on each, and long ones would leave no room for a program's other
//     calls.
//   - Its open streams keep neither the header of the answer nor the request.
//
// The last two do not hold for a config with a Transport, which is used as it
// is. Proxy settings are those of config, or of the environment as usual.
// ConfigFor(nil) returns nil.
func ConfigFor(config *rest.Config) *rest.Config {
	if config == nil {
		return nil
	}
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter, config.Timeout = -1, nil, 0
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if config.Transport == nil {
		if config.Proxy == nil {
			// client-go's default. Naming it keeps client-go from handing out
			// connections that others have with the same config: functions
			// cannot be compared.
			config.Proxy = http.ProxyFromEnvironment
		}
		config.WrapTransport = transport.Wrappers(trim, config.WrapTransport) // the first is the innermost
	}
	return config
}
