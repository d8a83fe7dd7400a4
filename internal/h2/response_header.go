// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/net/http2"

	"github.com/refwatch/refwatch/internal/redact"
)

// readHeader handles the header of a response, or its trailer. 1xx responses and
// trailers are checked and dropped.
func (c *conn) readHeader(f *http2.MetaHeadersFrame) error {
	c.mu.Lock()
	s, err := c.streamLocked(f.FrameHeader)
	if s == nil {
		c.mu.Unlock()
		return err
	}
	opened, left := s.opened, s.left
	c.mu.Unlock()

	var resp *http.Response
	switch {
	case f.Truncated:
		err = redact.Errorf("the header of the response has more than %d bytes", c.options.maxHeaderList)
	case slices.ContainsFunc(f.RegularFields(), aboutConnection):
		err = redact.New("a field of HTTP/1 in the header of the response")
	case opened:
		err = checkTrailer(f, left)
	default:
		if resp, err = newResponse(f); resp == nil && err == nil {
			err = s.inform(f)
		}
	}
	if err != nil {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol, Cause: err}
	}
	if resp != nil {
		resp.Body = s
	}
	s.open(resp, f.StreamEnded())
	return nil
}

// inform counts a 1xx response. Together they may be as large as one header.
func (s *stream) inform(f *http2.MetaHeadersFrame) error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, field := range f.Fields {
		s.waiter.informed += uint64(field.Size())
	}
	if s.waiter.informed > uint64(c.options.maxHeaderList) {
		return redact.Errorf("the headers of the 1xx responses have more than %d bytes", c.options.maxHeaderList)
	}
	return nil
}

// open wakes roundTrip with the response, and ends the stream if the server has.
func (s *stream) open(resp *http.Response, end bool) {
	c := s.conn
	c.mu.Lock()
	if s.ended {
		c.mu.Unlock()
		return
	}
	if resp != nil {
		s.opened = true
		s.left = resp.ContentLength
		s.waiter.response = resp
		s.waiter.wake()
	}
	notify := func() {}
	if end {
		notify = s.endLocked(io.EOF)
	}
	c.mu.Unlock()
	notify()
}

// checkTrailer checks what follows the body of a response, of which left bytes are
// missing.
func checkTrailer(f *http2.MetaHeadersFrame, left int64) error {
	switch {
	case !f.StreamEnded():
		return redact.New("a second header that is no trailer")
	case len(f.PseudoFields()) > 0:
		return redact.New("a pseudo-header in a trailer")
	case left > 0:
		return errTooLittleData
	}
	return nil
}

// newResponse returns the response of a header, without its body; nil for 1xx.
func newResponse(f *http2.MetaHeadersFrame) (*http.Response, error) {
	status := f.PseudoValue("status")
	code, err := strconv.Atoi(status)
	if len(status) != 3 || err != nil || code < 100 || code == http.StatusSwitchingProtocols {
		return nil, redact.New("missing or invalid :status")
	}
	if code < http.StatusOK {
		if f.StreamEnded() {
			return nil, redact.New("an informational response ends the stream")
		}
		return nil, nil
	}
	resp := &http.Response{
		Status:        status + " " + http.StatusText(code),
		StatusCode:    code,
		Proto:         "HTTP/2.0",
		ProtoMajor:    2,
		Header:        make(http.Header, len(f.RegularFields())),
		ContentLength: -1,
	}
	for _, field := range f.RegularFields() {
		resp.Header.Add(field.Name, field.Value)
	}
	if lengths := resp.Header["Content-Length"]; len(lengths) > 0 {
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || len(lengths) > 1 {
			return nil, redact.New("invalid content-length")
		}
		resp.ContentLength = int64(n)
	}
	if f.StreamEnded() && code != http.StatusNotModified {
		if resp.ContentLength > 0 {
			return nil, errTooLittleData
		}
		resp.ContentLength = 0
	}
	return resp, nil
}
