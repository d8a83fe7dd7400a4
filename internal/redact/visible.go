// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Decides which part of an error may be shown.

var (
	// quoteless are errors without a type of their own.
	quoteless = []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, context.Canceled, context.DeadlineExceeded,
		http.ErrSchemeMismatch, http.ErrBodyReadAfterClose,
	}
	// quotelessPackages are those whose error types quote addresses, names of hosts,
	// certificates and local files, but nothing that HTTP has brought.
	quotelessPackages = []string{"context", "crypto/tls", "crypto/x509", "internal/poll", "io/fs", "net", "os", "syscall"}
	// knownTexts begin errors of a body, and of requests that were not sent, whose types are not exported: those of
	// net/http, golang.org/x/net/http2 and client-go. They quote no body: an error of HTTP/2 quotes frames of other
	// types, such as a GOAWAY, and the names of header fields.
	knownTexts = []string{
		"http: ", "net/http: request canceled", "net/http: TLS handshake timeout", "net/http: timeout awaiting response headers",
		"context deadline exceeded (", "malformed HTTP ", "malformed response from server: ",
		"http2: ", "stream error: ", "connection error: ", "client rate limiter Wait returned an error: ",
	}
)

// New is errors.New for an error whose text is not hidden.
func New(text string) error { return Loggable(errors.New(text)) }

// Errorf is fmt.Errorf for an error whose text is not hidden. No argument may quote a body.
func Errorf(format string, args ...any) error { return Loggable(fmt.Errorf(format, args...)) }

// visible returns the outermost part of err that quotes no object, or nil. It allows
// what it knows: an error that [Loggable] has marked, that of a request without an answer, and errors of
// connections and of contexts.
func visible(err error) error {
	switch e := err.(type) { //nolint:errorlint // each error of the chain for itself
	case nil:
		return nil
	case loggable:
		return plain(e)
	case *url.Error:
		return unanswered(e)
	case *net.OpError: // one of a user's connection may wrap anything
		shown := *e
		if shown.Err = visible(e.Err); shown.Err == nil {
			shown.Err = textHidden(e.Err)
		}
		return plain(&shown)
	}
	if quotesNothing(err) {
		return plain(err)
	}
	switch e := err.(type) { //nolint:errorlint // each error of the chain for itself
	case interface{ Unwrap() error }:
		return visible(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if shown := visible(inner); shown != nil {
				return shown
			}
		}
	}
	return nil
}

// unanswered returns the error of http.Client.Do, which fails before it has returned a body: whatever has failed, the
// connection, the proxy, the credentials or the header of the answer, quotes none. The URL is shown without its path,
// which may be that of a redirect.
func unanswered(err *url.Error) error {
	if err.Op == "parse" { // of package url: no request has failed
		return visible(err.Err)
	}
	return &url.Error{Op: err.Op, URL: hostOf(err.URL), Err: plain(err.Err)}
}

// quotesNothing reports whether err is one of those that are known to quote no body.
func quotesNothing(err error) bool {
	kind := reflect.TypeOf(err)
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if slices.Contains(quoteless, err) || slices.Contains(quotelessPackages, kind.PkgPath()) {
		return true
	}
	begins := func(text string) bool { return strings.HasPrefix(err.Error(), text) }
	return !beginsWithWrapped(err) && slices.ContainsFunc(knownTexts, begins)
}

// beginsWithWrapped reports whether the text of err may begin with that of an error that it wraps. That beginning
// does not say where the rest is from.
func beginsWithWrapped(err error) bool {
	switch e := err.(type) { //nolint:errorlint // this error, not one that it wraps
	case interface{ Unwrap() []error }:
		return true
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		return inner != nil && strings.HasPrefix(err.Error(), inner.Error())
	}
	return false
}

// hostOf returns a URL without its user, its path and its query: a redirect of the server may have set them.
func hostOf(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host}).String()
}
