// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ClientFor returns a client that suits many streams, and leaves config alone:
//
//   - It prefers protobuf, which is smaller on the wire and cheaper to decode.
//   - It has no limit of its own (QPS, burst, rate limiter): the
//     [github.com/refwatch/refwatch/reflector.Gate] bounds what is asked for at
//     a time, and lets go first what somebody waits for.
//   - It has connections of its own. kube-apiserver allows a bounded number of
//     streams on each, and long ones would leave no room for a program's other
//     calls.
//   - What an answer holds besides its body is let go of once it has been read,
//     which an open stream would keep for an hour.
//
// Proxy settings are those of config, or of the environment as usual.
func ClientFor(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if config.Proxy == nil {
		// client-go's default. Naming it keeps client-go from handing out
		// connections that others have with the same config: functions cannot
		// be compared.
		config.Proxy = http.ProxyFromEnvironment
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return trimmer{next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for many streams: %w", err)
	}
	return client, nil
}

// trimmer lets go of the header and the request of an answer. An HTTP/2
// transport keeps the answer for as long as the body is read, in the case of a
// watch for up to an hour; who asked gets a copy, and drops it when the body is all it needs.
type trimmer struct{ http.RoundTripper }

func (t trimmer) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(request)
	if err != nil || answer == nil || answer.ProtoMajor < 2 {
		return answer, err
	}
	trimmed := *answer
	answer.Header, answer.Request, answer.TLS = nil, nil, nil
	return &trimmed, nil
}

// WrappedRoundTripper implements apimachinery's RoundTripperWrapper, for who looks
// for the transport within.
func (t trimmer) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
