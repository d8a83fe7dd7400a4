// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// ContentTyped is the body of an answer that is not one of an API server, by its header.
// rest.Request.Stream of client-go returns bodies, and no header.
type ContentTyped interface {
	// ContentType returns the Content-Type of the answer, or what stands for it, and the encoding.
	ContentType() string
}

// contentType is a [ContentTyped].
type contentType string

func (c contentType) ContentType() string { return string(c) }

// longestContentType is how much of a type is kept.
const longestContentType = 200

// markForeign makes the body of an answer [ContentTyped] if it is no JSON and no protobuf.
func markForeign(response *http.Response) {
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices || response.Body == nil {
		return
	}
	kind, encoding := response.Header.Get("Content-Type"), response.Header.Get("Content-Encoding")
	media, _, _ := strings.Cut(kind, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf:
		if encoding == "" || strings.EqualFold(encoding, "identity") {
			return
		}
	}
	text := cmp.Or(beginning(kind), "unknown")
	if encoding != "" {
		text += ", encoded as " + beginning(encoding)
	}
	if body, ok := response.Body.(Body); ok {
		response.Body = struct {
			Body
			contentType
		}{body, contentType(text)}
		return
	}
	response.Body = struct {
		io.ReadCloser
		contentType
	}{response.Body, contentType(text)}
}

func beginning(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), longestContentType)], ""))
}
