// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/refwatch/refwatch/test/soak"
)

// answer handles a request of the managers. It may call the server, or answer instead of it. healed is closed when the
// fault ends.
type answer func(request *http.Request, server http.RoundTripper, healed <-chan struct{}) (*http.Response, error)

// answers is where faults answer requests of the managers. The zero value passes all to the server.
type answers struct {
	mu     sync.Mutex
	answer answer // nil: the server answers
	healed chan struct{}
}

// answered returns a fault: requests are answered differently for some time. All connections are cut, so that there are
// requests for all objects.
func answered(f answer) func(*controlPlane, context.Context, *soak.Load) error {
	return func(p *controlPlane, ctx context.Context, load *soak.Load) error {
		healed := make(chan struct{})
		p.answers.set(f, healed)
		load.Cut()
		hold(ctx, paused)
		p.answers.set(nil, nil)
		close(healed)
		return nil
	}
}

func (a *answers) set(f answer, healed chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer, a.healed = f, healed
}

// wrap is the Wrap of a rest.Config.
func (a *answers) wrap(server http.RoundTripper) http.RoundTripper { return interceptor{server, a} }

type interceptor struct {
	http.RoundTripper
	answers *answers
}

var _ utilnet.RoundTripperWrapper = interceptor{}

// WrappedRoundTripper returns the transport that has the connections.
func (i interceptor) WrappedRoundTripper() http.RoundTripper { return i.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i interceptor) RoundTrip(request *http.Request) (*http.Response, error) {
	i.answers.mu.Lock()
	f, healed := i.answers.answer, i.answers.healed
	i.answers.mu.Unlock()
	if f == nil {
		return i.RoundTripper.RoundTrip(request)
	}
	return f(request, i.RoundTripper, healed)
}

// some applies an answer to the requests for a tenth of the objects.
func some(f answer) answer {
	return func(request *http.Request, server http.RoundTripper, healed <-chan struct{}) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Query().Get("fieldSelector"), "7") {
			return f(request, server, healed)
		}
		return server.RoundTrip(request)
	}
}

// ofSecrets applies an answer to the requests for Secrets.
func ofSecrets(f answer) answer {
	return func(request *http.Request, server http.RoundTripper, healed <-chan struct{}) (*http.Response, error) {
		if path.Base(request.URL.Path) == "secrets" {
			return f(request, server, healed)
		}
		return server.RoundTrip(request)
	}
}

// status is an answer with a status, and with text that is not of Kubernetes, as of a proxy or a default backend.
func status(code int, header http.Header) answer {
	return func(request *http.Request, _ http.RoundTripper, _ <-chan struct{}) (*http.Response, error) {
		header := header.Clone()
		header.Set("Content-Type", "text/plain; charset=utf-8")
		return &http.Response{
			Status: http.StatusText(code), StatusCode: code, Header: header, Request: request,
			Proto: "HTTP/2.0", ProtoMajor: 2, Body: io.NopCloser(strings.NewReader(http.StatusText(code))),
		}, nil
	}
}

// retryAfter is the header of a server that cannot answer yet.
var retryAfter = http.Header{"Retry-After": {"5"}}

// errHealed ends the requests that hang, as when the connection of a backend that has hung is reset.
var errHealed = errors.New("connection reset by the proxy")

// hanging does not answer.
func hanging(request *http.Request, _ http.RoundTripper, healed <-chan struct{}) (*http.Response, error) {
	select {
	case <-healed:
		return nil, errHealed
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// endedEarly ends each WatchList in half a frame, before the bookmark that completes the state.
func endedEarly(request *http.Request, server http.RoundTripper, _ <-chan struct{}) (*http.Response, error) {
	const part = 50 // bytes
	response, err := server.RoundTrip(request)
	if err == nil && request.URL.Query().Has("sendInitialEvents") {
		response.Body = body{io.LimitReader(response.Body, part), response.Body}
	}
	return response, err
}

// endless begins each watch with a frame of 1 GiB. It does not end.
func endless(request *http.Request, server http.RoundTripper, _ <-chan struct{}) (*http.Response, error) {
	response, err := server.RoundTrip(request)
	if err == nil && request.URL.Query().Has("watch") {
		length := []byte{1 << 6, 0, 0, 0} // of a frame of Protobuf, in big-endian order
		response.Body = body{io.MultiReader(bytes.NewReader(length), zeros{}), response.Body}
	}
	return response, err
}

// zeros is a reader of zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// body reads something else than the body that it closes.
type body struct {
	io.Reader
	io.Closer
}
