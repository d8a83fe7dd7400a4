// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// attempts are the requests of one write: what NewClient knows of one that fails. client-go repeats a request whose
// answer has Retry-After, and returns the answer to the last one: after a 504, the server may have done a write whose
// error is AlreadyExists.
type attempts struct {
	accepted atomic.Bool // one of them may have written
	deleted  types.UID   // of the object that a DELETE has deleted, if the answer says so
}

// mayBeDone reports whether the write may be done: no dry run, and an attempt was not refused.
func (a *attempts) mayBeDone(dryRun []string) bool { return len(dryRun) == 0 && a.accepted.Load() }

// attemptsKey is the key of the context of a write.
type attemptsKey struct{}

// noteAttempts returns the context for a write.
func noteAttempts(ctx context.Context) (context.Context, *attempts) {
	a := &attempts{}
	return context.WithValue(ctx, attemptsKey{}, a), a
}

// attemptNoter is the transport of a client that notes what becomes of the attempts.
type attemptNoter struct {
	http.RoundTripper
}

// withAttempts returns a copy of the HTTP client that notes the attempts of each write. If it is nil, the copy is one
// of config, as client.New makes it.
func withAttempts(config *rest.Config, stock *http.Client) (*http.Client, error) {
	if stock == nil {
		if config == nil {
			return nil, nil // client.New returns an error
		}
		config = rest.CopyConfig(config)
		config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())
		var err error
		if stock, err = rest.HTTPClientFor(config); err != nil {
			return nil, err
		}
	}
	noting := *stock
	if noting.Transport == nil {
		noting.Transport = http.DefaultTransport
	}
	noting.Transport = attemptNoter{noting.Transport}
	return &noting, nil
}

// RoundTrip implements http.RoundTripper.
func (n attemptNoter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(request)
	if a, ok := request.Context().Value(attemptsKey{}).(*attempts); ok && (err != nil || !refuses(response.StatusCode)) {
		a.accepted.Store(true)
		if err == nil && request.Method == http.MethodDelete {
			a.noteDeleted(response)
		}
	}
	return response, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery, which closes idle connections.
func (n attemptNoter) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

// refuses reports whether an answer proves that its request has written nothing. These are the codes with which
// kube-apiserver refuses; a proxy or a webhook may send any other, before the write or after it.
func refuses(code int) bool {
	switch code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
