// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/internal/redact"
)

// Says what has come in place of an API server's answer: the page of a login, or nothing.

// foreign is the error of an answer that is not one of an API server.
func foreign(kind string) error {
	return redact.Errorf("%w: an answer of type %s, where JSON or protobuf belongs", cache.ErrMalformed, kind)
}

// errEmpty is the error of an answer without a body.
var errEmpty = redact.Errorf("%w: an empty answer", cache.ErrMalformed)

// errNoEvent is the error of a stream that brings something else than events, such as a list.
var errNoEvent = redact.Errorf("%w: one object, or a list, where events belong", cache.ErrMalformed)

// noEvent is errNoEvent of a JSON object, with its kind. One that client-go's scheme does not have may be data.
func noEvent(frame []byte) error {
	var meta metav1.TypeMeta
	if json.Unmarshal(frame, &meta) == nil && scheme.Scheme.Recognizes(meta.GroupVersionKind()) {
		return redact.Errorf("%w: a %s where events belong", cache.ErrMalformed, meta.Kind)
	}
	return errNoEvent
}

// typeOf returns the type of a body by its header, if that is not an API server's.
func typeOf(body io.ReadCloser) string {
	if typed, ok := body.(h2.ContentTyped); ok {
		return typed.ContentType()
	}
	return ""
}

// typeBy returns the type of an answer by its first bytes, if they are not those of JSON or protobuf: the header is
// not known of a client without the transport of this library.
func typeBy(first []byte) string {
	trimmed := trimBlanks(first)
	switch {
	case len(trimmed) == 0:
		return ""
	case trimmed[0] == '{', trimmed[0] == '[', bytes.HasPrefix(first, protobufPrefix):
		return ""
	}
	kind, _, _ := strings.Cut(http.DetectContentType(first), ";")
	switch {
	case kind == "application/octet-stream":
		return ""
	case kind == "text/plain" && trimmed[0] == '<':
		return "text/html or text/xml"
	}
	return kind
}

// undecodedAnswer returns the error of an answer to a list or a GET that cannot be decoded.
func undecodedAnswer(body []byte, kind string, err error) error {
	switch kind = cmp.Or(kind, typeBy(body)); {
	case kind != "":
		return foreign(kind)
	case len(trimBlanks(body)) == 0:
		return errEmpty
	}
	return err
}

// foreignStream is a stream whose header has another type than those of an API server. It may bring events
// nevertheless.
type foreignStream struct {
	*restStream

	kind  string
	begun bool // an event has come
}

// Next implements Stream.
func (s *foreignStream) Next() (watch.Event, error) {
	event, err := s.restStream.Next()
	return event, s.explain(err)
}

// TryNext implements Parkable.
func (s *foreignStream) TryNext() (event watch.Event, ok bool, err error) {
	if event, ok, err = s.restStream.TryNext(); ok {
		err = s.explain(err)
	}
	return event, ok, err
}

// explain returns an error of the stream, which is that of its type if nothing has come before.
func (s *foreignStream) explain(err error) error {
	s.begun = s.begun || err == nil
	if !s.begun && (errors.Is(err, cache.ErrMalformed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return foreign(s.kind)
	}
	return err
}

// longFrame returns the error of a frame that announces more bytes than one can have. Where the answer is no stream,
// its first bytes are taken for the length.
func (s *restStream) longFrame(length int64) error {
	first := s.length[:]
	switch kind := typeBy(first); {
	case kind != "":
		return foreign(kind)
	case len(trimBlanks(first)) == 0:
		return foreign("text/plain")
	case bytes.HasPrefix(first, protobufPrefix), first[0] == '[':
		return errNoEvent
	}
	return redact.Errorf("%w: a frame of %d bytes", cache.ErrMalformed, length)
}

// clientTexts begin errors of client-go's REST client about an answer that it has no decoder for. They have the type
// of the answer, and nothing else of it.
var clientTexts = []string{"0-length response with status code: ", "serializer for "}

// answered returns an error of a client of client-go, which is cache.ErrMalformed if there was an answer of another
// type.
func answered(err error) error {
	if err == nil {
		return nil
	}
	known := errors.As(err, new(runtime.NegotiateError))
	for _, text := range clientTexts {
		known = known || errors.Unwrap(err) == nil && strings.HasPrefix(err.Error(), text)
	}
	if known {
		return redact.Errorf("%w: %.300s", cache.ErrMalformed, err)
	}
	return err
}
