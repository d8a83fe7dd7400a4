// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"net/http"
	"net/http/httptrace"

	"golang.org/x/net/http2/hpack"

	"github.com/refwatch/refwatch/internal/redact"
)

func (c *conn) roundTrip(req *http.Request, moved <-chan struct{}) (*http.Response, error) {
	fields, err := requestFields(req)
	if err != nil {
		c.release()
		return nil, err
	}
	ctx := req.Context()
	trace := httptrace.ContextClientTrace(ctx)
	s, err := c.open(ctx, moved, fields)
	if trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
	if err != nil {
		return nil, err
	}
	resp, err := s.wait(ctx, moved)
	if err != nil {
		return nil, err
	}
	if trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	resp.Request, resp.TLS = req, c.tls
	return resp, nil
}

// open writes the request of a new stream. The ids of streams grow in the order of
// their requests, because writing is held.
func (c *conn) open(ctx context.Context, moved <-chan struct{}, fields []hpack.HeaderField) (*stream, error) {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		c.release()
		return nil, context.Cause(ctx)
	case <-moved:
		c.release()
		return nil, errMoved
	}
	s, err := c.add(ctx, fields)
	if err != nil {
		<-c.writing
		c.release()
		return nil, err
	}
	err = c.flush(c.writeHeaders(s.id, fields))
	<-c.writing
	if err != nil {
		c.fail(err)
		return nil, redact.Errorf("%w: %w", errUnprocessed, err)
	}
	return s, nil
}

// add adds a stream to the connection, in the reserved slot. The caller holds writing.
func (c *conn) add(ctx context.Context, fields []hpack.HeaderField) (*stream, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	size := uint64(0)
	for _, f := range fields {
		size += uint64(f.Size())
	}
	if size > uint64(c.peerHeaderMax) {
		return nil, redact.Errorf("the header of the request has %d bytes, the server allows %d", size, c.peerHeaderMax)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return nil, redact.Errorf("%w: %w", errUnprocessed, c.err)
	case c.goAway != nil:
		return nil, redact.Errorf("%w: %w", errUnprocessed, *c.goAway)
	}
	s := &stream{
		conn:   c,
		id:     c.nextID,
		inflow: inflow{available: c.options.streamWindow},
		waiter: newWaiter(),
	}
	c.streams[s.id] = s
	c.nextID += 2
	c.reserved--
	return s, nil
}

// wait waits for the header of the response, or until moved is closed before that.
func (s *stream) wait(ctx context.Context, moved <-chan struct{}) (*http.Response, error) {
	w := s.waiter // it is replaced after this only
	for {
		s.conn.mu.Lock()
		resp, err := w.response, w.end
		if resp != nil {
			w.response = nil
			s.tieLocked(ctx)
		}
		s.conn.mu.Unlock()
		switch {
		case resp != nil:
			return resp, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			err := context.Cause(ctx)
			s.conn.mu.Lock()
			s.cancelLocked(err)
			return nil, err
		case <-moved:
			s.conn.mu.Lock()
			if w.response == nil && w.end == nil {
				s.cancelLocked(errMoved)
				return nil, errMoved
			}
			s.conn.mu.Unlock()
		}
	}
}

// tieLocked makes the end of ctx end the stream.
func (s *stream) tieLocked(ctx context.Context) {
	if !s.ended && ctx.Done() != nil {
		s.detach = context.AfterFunc(ctx, func() { s.contextEnded(context.Cause(ctx)) })
	}
}
