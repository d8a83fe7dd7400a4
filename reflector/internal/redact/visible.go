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

var (
	// quoteless are errors without a type of their own.
	quoteless = []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, context.Canceled, context.DeadlineExceeded,
		http.ErrSchemeMismatch, http.ErrBodyReadAfterClose,
	}
	// quotelessPackages are those whose error types quote addresses, names of hosts,
	// certificates and local files, but nothing that HTTP has brought.
	quotelessPackages = []string{"context", "crypto/tls", "crypto/x509", "internal/poll", "io/fs", "net", "os", "syscall"}
	// localTexts begin errors of client-go about the program's own credentials and limits.
	localTexts = []string{
		"getting credentials: ", "failed to read token file ", "read empty token from file ",
		"client rate limiter Wait returned an error: ",
	}
	// quotedTexts begin errors of net/http, and of golang.org/x/net/http2, whose types differ
	// from version to version. What the server sent stands within quotes there: the debug
	// data of a GOAWAY, or the name of a header.
	quotedTexts = []string{
		"http: ", "net/http: request canceled", "net/http: TLS handshake timeout", "net/http: timeout awaiting response headers",
		"context deadline exceeded (", "malformed HTTP ", "malformed response from server: ",
		"http2: ", "stream error: ", "connection error: ",
	}
)

// quoted is an error that quotes what a server has sent only between double quotes.
type quoted struct{ error }

func (q quoted) Unwrap() error { return q.error }

// New is errors.New for an error whose text is not hidden.
func New(text string) error { return quoted{errors.New(text)} }

// Errorf is fmt.Errorf for an error whose text is not hidden, up to the first double quote.
// The arguments must quote what a server has sent, as %q and the errors of
// golang.org/x/net/http2 do.
func Errorf(format string, args ...any) error { return quoted{fmt.Errorf(format, args...)} }

// unquoted returns an error with the text of err up to the first double quote.
func unquoted(err error) error {
	text, _, _ := strings.Cut(err.Error(), `"`)
	return errors.New(strings.TrimSpace(text))
}

// visible returns the outermost part of err that quotes no object, or nil. It allows
// what it knows: an error that [Loggable] has marked or [Errorf] has made, and errors of connections, of
// contexts and of credentials.
func visible(err error) error {
	switch e := err.(type) { //nolint:errorlint // each error of the chain for itself
	case nil:
		return nil
	case loggable:
		return e
	case quoted:
		return unquoted(e)
	case *url.Error:
		if inner := visible(e.Err); inner != nil {
			return &url.Error{Op: e.Op, URL: hostOf(e.URL), Err: inner}
		}
		return nil
	case *net.OpError: // may wrap the status line of a proxy
		shown := *e
		if shown.Err = visible(e.Err); shown.Err == nil {
			shown.Err = textHidden(e.Err)
		}
		return &shown
	}
	if shown := quotesNothing(err); shown != nil {
		return shown
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

// quotesNothing returns err, without what it quotes, or nil if it is not a known one.
func quotesNothing(err error) error {
	kind := reflect.TypeOf(err)
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	begins := func(text string) bool { return strings.HasPrefix(err.Error(), text) }
	switch {
	case slices.Contains(quoteless, err), slices.Contains(quotelessPackages, kind.PkgPath()):
		return err
	case beginsWithWrapped(err):
		return nil
	case slices.ContainsFunc(localTexts, begins):
		return err
	case slices.ContainsFunc(quotedTexts, begins):
		return unquoted(err)
	}
	return nil
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

// hostOf returns a URL without its path: a redirect of the server may have set that.
func hostOf(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host}).String()
}
