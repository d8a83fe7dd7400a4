// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func newRequest(t *testing.T) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api?watch=true", http.NoBody)
	check(t, err)
	return req
}

// Requests keep to the server's SETTINGS as soon as they are acknowledged.
func TestSettingsApplyToRequests(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		large := strings.Repeat("~", 20_000) // not smaller in Huffman's code
		send := func(id http2.SettingID, value uint32) error {
			e.settings(http2.Setting{ID: http2.SettingHeaderTableSize}, http2.Setting{ID: id, Val: value})
			e.wantSent("SETTINGS ack")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req := newRequest(t).WithContext(ctx)
			req.Header.Set("X-Large", large)
			if !e.client.reserve() {
				t.Fatal(errNoSlot)
			}
			_, err := e.client.roundTrip(req) //nolint:bodyclose // an error
			return err
		}
		wantWhole := func(what string, want bool) {
			t.Helper()
			f := e.take(what, func(f frame) bool { return f.Type == http2.FrameHeaders })
			if got := f.Flags.Has(http2.FlagHeadersEndHeaders); got != want {
				t.Errorf("%s: got HEADERS of %d bytes, all of them: %v, want %v", what, f.Length, got, want)
			}
			e.pongAll()
			e.sent()
		}
		_ = send(http2.SettingMaxHeaderListSize, 40_000)
		wantWhole("a header within the limit", false)
		_ = send(http2.SettingMaxFrameSize, 1<<15)
		wantWhole("a header of one large frame", true)
		e.wantTaken(0)
		if err := send(http2.SettingMaxHeaderListSize, 10); err == nil || errors.Is(err, errUnprocessed) ||
			!strings.Contains(err.Error(), "the server allows 10") {
			t.Errorf("a header above the limit: %v", err)
		}
		e.wantSent()
		e.wantTaken(0)
	})
}

// Paths do not replace the fields that all requests share.
func TestPathsStayOutOfTheHeaderTable(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		c := e.conn()
		c.writing <- struct{}{}
		defer func() { <-c.writing }()
		path, token := strings.Repeat("p", 500), strings.Repeat("t", 900)
		for i := range 50 {
			req := newRequest(t)
			req.URL.Path = fmt.Sprintf("/%d%s", i, path)
			req.Header.Set("Authorization", token)
			fields, err := requestFields(req)
			check(t, err)
			c.block.Reset()
			for _, f := range fields {
				check(t, c.encoder.WriteField(f))
			}
			if size := c.block.Len(); i > 0 && size > len(path)+50 {
				t.Fatalf("request %d has %d bytes: it repeats what was sent before", i, size)
			}
		}
	})
}

func TestRequestFields(t *testing.T) {
	pseudo := []string{":authority=server", ":method=GET", ":path=/api?watch=true", ":scheme=https"}
	tests := map[string]struct {
		header http.Header
		want   []string // nil: an error
	}{
		"default user agent": {nil, []string{"user-agent=Go-http-client/2.0"}},
		"no user agent":      {http.Header{"User-Agent": {""}}, []string{}},
		"lower case": {http.Header{"User-Agent": {"me", "you"}, "X-Many": {"a", "b"}},
			[]string{"user-agent=me", "x-many=a", "x-many=b"}},
		"fields of HTTP/1": {http.Header{
			"User-Agent": nil, "Connection": {"keep-alive"}, "Keep-Alive": {"1"}, "Proxy-Connection": {"x"},
			"Transfer-Encoding": {"chunked"}, "Upgrade": {"x"}, "Host": {"other"}, "Content-Length": {"0"},
			"Te": {"gzip", "trailers"},
		}, []string{"te=trailers"}},
		"a value with a line feed": {http.Header{"X-A": {"secret\n"}}, nil},
		"a name with a space":      {http.Header{"X A": {"secret"}}, nil},
		"a name above ASCII":       {http.Header{"Ü": {"secret"}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req := newRequest(t)
			maps.Copy(req.Header, test.header)
			fields, err := requestFields(req)
			if test.want == nil {
				if err == nil || strings.Contains(err.Error(), "secret") {
					t.Errorf("got error %v, want one without the value", err)
				}
				return
			}
			var got []string
			for _, f := range fields {
				got = append(got, f.Name+"="+f.Value)
			}
			slices.Sort(got)
			if want := append(slices.Clone(pseudo), test.want...); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

// A request that cannot be sent gives its slot back.
func TestInvalidRequest(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		req := newRequest(t)
		req.Header.Set("X-A", "\n")
		if !e.client.reserve() {
			t.Fatal(errNoSlot)
		}
		if _, err := e.client.roundTrip(req); err == nil { //nolint:bodyclose // an error
			t.Error("got no error, want one")
		}
		e.wantSent()
		e.wantTaken(0)
	})
}

// A buffer that a large write has enlarged is given back; that of a small one serves the next write.
func TestWriteBuffersAreKeptIfSmall(t *testing.T) {
	for size, kept := range map[int]bool{keptBuffer / 2: true, 2 * keptBuffer: false} {
		var buffer bytes.Buffer
		buffer.Write(make([]byte, size))
		reset(&buffer)
		if got := buffer.Cap() > 0; got != kept || buffer.Len() != 0 {
			t.Errorf("after %d bytes: got %d bytes in memory of %d, want it kept: %v", size, buffer.Len(), buffer.Cap(), kept)
		}
	}
}
