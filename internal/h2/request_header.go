// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"

	"github.com/refwatch/refwatch/internal/redact"
)

// userAgent is sent for requests that name none, as net/http does.
const userAgent = "Go-http-client/2.0"

// requestFields returns the header of a request in the form of HTTP/2 (RFC 9113,
// section 8.3.1). Errors name the field, not its value: it may be a token.
func requestFields(req *http.Request) ([]hpack.HeaderField, error) {
	if req.Method != http.MethodGet && req.Method != "" || req.Body != nil && req.Body != http.NoBody {
		return nil, redact.New("only GET requests without a body are possible here")
	}
	if req.URL == nil {
		return nil, redact.New("the request has no URL")
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	host, err := httpguts.PunycodeHostPort(host)
	if err != nil {
		return nil, redact.Errorf("the request's host is invalid: %w", err)
	}
	if !httpguts.ValidHostHeader(host) {
		return nil, redact.New("the request's host is invalid")
	}
	path := req.URL.RequestURI()
	if !strings.HasPrefix(path, "/") {
		return nil, redact.New("the request's URL has no path")
	}
	fields := make([]hpack.HeaderField, 0, 5+len(req.Header))
	fields = append(fields,
		hpack.HeaderField{Name: ":authority", Value: host},
		hpack.HeaderField{Name: ":method", Value: http.MethodGet},
		// Paths differ: in the HPACK table, they would replace what all requests share.
		hpack.HeaderField{Name: ":path", Value: path, Sensitive: true},
		hpack.HeaderField{Name: ":scheme", Value: req.URL.Scheme},
	)
	if _, ok := req.Header["User-Agent"]; !ok {
		fields = append(fields, hpack.HeaderField{Name: "user-agent", Value: userAgent})
	}
	return appendFields(fields, req.Header)
}

func appendFields(fields []hpack.HeaderField, header http.Header) ([]hpack.HeaderField, error) {
	for key, values := range header {
		if !httpguts.ValidHeaderFieldName(key) {
			return nil, redact.Errorf("the request has an invalid header name %q", key)
		}
		name := strings.ToLower(key)
		for i, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, redact.Errorf("the request has an invalid value of header %q", key)
			}
			field := hpack.HeaderField{Name: name, Value: value}
			if sendable(field) && (name != "user-agent" || i == 0 && value != "") {
				fields = append(fields, field)
			}
		}
	}
	return fields, nil
}

// sendable reports whether a request of HTTP/2 may have a field. Host is :authority, and
// there is no body that could have a length.
func sendable(f hpack.HeaderField) bool {
	switch f.Name {
	case "host", "content-length":
		return false
	case "te":
		return f.Value == "trailers"
	}
	return !aboutConnection(f)
}

// aboutConnection reports whether a field is about the connection of HTTP/1: HTTP/2 does
// not allow it (RFC 9113, section 8.2.2).
func aboutConnection(f hpack.HeaderField) bool {
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return true
	}
	return false
}
