// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// canary is object data: it must appear nowhere.
const canary = "canary-canary-canary"

// timeout is an error of the network with any text, as net/http makes one of that of a body.
type timeout struct{ text string }

func (t timeout) Error() string { return t.text }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// leaves are errors as client-go, net/http and package transport make them of a body, with a text of that.
var leaves = []func(text string) error{
	func(text string) error { return fmt.Errorf("Object 'Kind' is missing in '%s'", text) },
	func(text string) error {
		return apierrors.FromObject(apierrors.NewClientErrorReporter(500, http.MethodGet, "ClientWatchDecoding").AsObject(errors.New("unable to decode " + text)))
	},
	func(text string) error {
		return apierrors.NewGenericServerResponse(502, http.MethodGet, schema.GroupResource{Resource: "secrets"}, "", text, 7, true)
	},
	func(string) error { return apierrors.NewUnauthorized("expired") },
	func(text string) error { return textproto.ProtocolError("malformed MIME header line: " + text) }, // of a trailer
	func(string) error { return http2.GoAwayError{ErrCode: http2.ErrCodeEnhanceYourCalm, DebugData: frame} },
	func(string) error {
		return http2.StreamError{StreamID: 3, Code: http2.ErrCodeProtocol, Cause: fmt.Errorf("invalid header field name %q", frame)}
	},
	func(string) error { return http2.ConnectionError(http2.ErrCodeProtocol) },
	func(string) error { return Errorf("the field %q is too long", frame) },
	func(string) error { return Loggable(errors.New("too long")) },
	func(text string) error { return timeout{"decoding " + text} },
	func(string) error { return syscall.ECONNRESET },
	func(string) error { return io.ErrUnexpectedEOF },
	func(string) error { return context.DeadlineExceeded },
}

// frame is what a server has sent in a frame that is no body.
const frame = "of\na\x1bframe"

// requests are errors of a request without an answer, with a text that may be a body, a password or the path of an
// object.
var requests = []func(text string) error{
	func(text string) error { return textproto.ProtocolError("malformed MIME header line: " + text) },
	func(text string) error {
		return textproto.ProtocolError(fmt.Sprintf("malformed MIME header: missing colon: %q", text))
	},
	func(text string) error { return fmt.Errorf("malformed HTTP response %q", text) },
	func(text string) error {
		return fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", fmt.Errorf("malformed HTTP status code %q", text))
	},
	func(text string) error {
		_, err := url.Parse("http://[" + text)
		return fmt.Errorf("failed to parse Location header %q: %w", "http://["+text, err)
	},
	func(text string) error {
		_, err := url.Parse("http://user:" + text + "%zz@proxy")
		return fmt.Errorf("invalid proxy address %q: %w", text, err)
	},
	func(text string) error {
		proxy := url.URL{Scheme: "http", User: url.UserPassword("user", text), Host: "proxy"}
		return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: errors.New(proxy.String() + " is no proxy")}
	},
	func(string) error { return http2.GoAwayError{ErrCode: http2.ErrCodeEnhanceYourCalm, DebugData: frame} },
	func(string) error { return errors.New(frame) }, // the status line of a proxy
	func(string) error { return syscall.ECONNRESET },
}

// wrappers wrap an error.
var wrappers = []func(text string, err error) error{
	func(text string, err error) error { return fmt.Errorf("decoding %s: %w", text, err) },
	func(text string, err error) error { return fmt.Errorf("%w, after %s", err, text) },
	func(text string, err error) error { return errors.Join(errors.New("decoding "+text), err) },
	func(text string, err error) error { return errors.Join(err, errors.New("decoding "+text)) },
	func(_ string, err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} },
	func(_ string, err error) error { return Error(err) },
}

// newLeaf returns the leaf, or the request, of a number.
func newLeaf(number byte, text string) error {
	n := int(number) % (len(leaves) + 2*len(requests))
	if n < len(leaves) {
		return leaves[n](text)
	}
	n -= len(leaves)
	address := "https://server/" + text
	if n%2 == 0 {
		address = "/path/" + text
	}
	return &url.Error{Op: "Get", URL: address, Err: requests[n/2](text)}
}

// FuzzError wraps errors in others, all with a text that may be a body. No verb of fmt prints that text after Error,
// for the error or for one that it wraps. What is printed is bounded, and a terminal can print it. What it wraps is
// still found.
func FuzzError(f *testing.F) {
	for leaf := range byte(len(leaves) + 2*len(requests)) {
		f.Add([]byte{leaf}, "")
		for wrapper := range byte(len(wrappers)) {
			f.Add([]byte{leaf, wrapper}, "a")
		}
		f.Add([]byte{leaf, 0, 4}, "\x1b[2J")
		f.Add([]byte{leaf}, strings.Repeat("long ", longestText/4))
		f.Add([]byte{leaf, 3, 1, 4}, `"`)
		f.Add([]byte{leaf, 2, 4, 5, 3}, "\n'%!@#://")
	}
	f.Fuzz(checkError)
}

func checkError(t *testing.T, shape []byte, text string) {
	if len(shape) == 0 || len(shape) > 8 {
		return
	}
	text += canary
	err := newLeaf(shape[0], text)
	for _, b := range shape[1:] {
		err = wrappers[int(b)%len(wrappers)](text, err)
	}
	got := Error(err)
	for shown := got; shown != nil; shown = errors.Unwrap(shown) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if printed := fmt.Sprintf(verb, shown); strings.Contains(printed, "canary") {
				t.Errorf("%s of %#v: got %s", verb, err, printed)
			}
		}
	}
	if strings.ContainsFunc(got.Error(), func(r rune) bool { return !strconv.IsPrint(r) }) {
		t.Errorf("got what cannot be printed: %q", got)
	}
	if most := longestText + 100; len(got.Error()) > most {
		t.Errorf("got a text of %d bytes, want %d at most", len(got.Error()), most)
	}
	for _, target := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, syscall.ECONNRESET} {
		if errors.Is(got, target) != errors.Is(err, target) {
			t.Errorf("errors.Is %v: got %v, want %v", target, errors.Is(got, target), errors.Is(err, target))
		}
	}
	if apierrors.ReasonForError(got) != apierrors.ReasonForError(err) {
		t.Errorf("got reason %q, want %q", apierrors.ReasonForError(got), apierrors.ReasonForError(err))
	}
	if twice := Error(got); twice.Error() != got.Error() {
		t.Errorf("twice: got %q, want %q", twice, got)
	}
}
