// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// headerFault sends a header, given as name, value, name, value.
func headerFault(want string, fields ...string) fault {
	return fault{func(e *exchange, id uint32) { e.header(id, fields...) }, want}
}

// informs sends 1xx responses whose headers have a size, as RFC 9113 counts it.
func (e *exchange) informs(id uint32, size int) {
	const overhead = len(":status") + len("103") + 32 + len("a") + 32
	for size > 0 {
		n := min(size, 8<<10)
		if rest := size - n; rest > 0 && rest < overhead {
			n -= overhead
		}
		e.header(id, ":status", "103", "a", strings.Repeat("x", n-overhead))
		size -= n
	}
}

// Response headers that are malformed end their stream (RFC 9113, sections 8.1 to 8.3).
func TestFaultHeader(t *testing.T) {
	runFaults(t, states["waiting"], map[string]fault{
		"no fields":                  headerFault("S.PROTOCOL"),
		"no status":                  headerFault("S.PROTOCOL", "a", "b"),
		"empty status":               headerFault("S.PROTOCOL", ":status", ""),
		"status of letters":          headerFault("S.PROTOCOL", ":status", "abc"),
		"status of two digits":       headerFault("S.PROTOCOL/ok", ":status", "20"),
		"status of four digits":      headerFault("S.PROTOCOL/ok", ":status", "2000"),
		"status with a sign":         headerFault("S.PROTOCOL/ok", ":status", "+20"),
		"status with a space":        headerFault("S.PROTOCOL", ":status", "200 "),
		"status with a word":         headerFault("S.PROTOCOL", ":status", "200 OK"),
		"status 0":                   headerFault("S.PROTOCOL/-", ":status", "000"),
		"status twice":               headerFault("S.PROTOCOL", ":status", "200", ":status", "200"),
		"status after a field":       headerFault("S.PROTOCOL", "a", "b", ":status", "200"),
		"pseudo field of requests":   headerFault("S.PROTOCOL", ":status", "200", ":path", "/"),
		"unknown pseudo field":       headerFault("S.PROTOCOL", ":status", "200", ":x", "y"),
		"upper case":                 headerFault("S.PROTOCOL", ":status", "200", "Content-Type", "x"),
		"empty name":                 headerFault("S.PROTOCOL", ":status", "200", "", "x"),
		"space in a name":            headerFault("S.PROTOCOL", ":status", "200", "a b", "x"),
		"colon in a name":            headerFault("S.PROTOCOL", ":status", "200", "a:b", "x"),
		"control character in name":  headerFault("S.PROTOCOL", ":status", "200", "a\x01", "x"),
		"byte above ASCII in a name": headerFault("S.PROTOCOL", ":status", "200", "a\xff", "x"),
		"line feed in a value":       headerFault("S.PROTOCOL", ":status", "200", "a", "b\nc"),
		"carriage return in a value": headerFault("S.PROTOCOL", ":status", "200", "a", "b\rc"),
		"NUL in a value":             headerFault("S.PROTOCOL", ":status", "200", "a", "b\x00c"),

		"connection":        headerFault("S.PROTOCOL/ok", ":status", "200", "connection", "close"),
		"keep-alive":        headerFault("S.PROTOCOL/ok", ":status", "200", "keep-alive", "timeout=5"),
		"proxy-connection":  headerFault("S.PROTOCOL/ok", ":status", "200", "proxy-connection", "close"),
		"transfer-encoding": headerFault("S.PROTOCOL/ok", ":status", "200", "transfer-encoding", "chunked"),
		"upgrade":           headerFault("S.PROTOCOL/ok", ":status", "200", "upgrade", "h2c"),

		"101":          headerFault("S.PROTOCOL/-", ":status", "101"),
		"101, upgrade": headerFault("S.PROTOCOL/-", ":status", "101", "upgrade", "websocket"),
		"100":          headerFault("-", ":status", "100"),
		"103":          headerFault("-", ":status", "103", "link", "</style.css>"),
		"1xx of a whole list": {func(e *exchange, id uint32) {
			e.informs(id, 1<<20)
		}, "-"},
		"1xx of more than a list": {func(e *exchange, id uint32) {
			e.informs(id, 1<<20+1)
		}, "S.PROTOCOL/-"}, // net/http's limit is 10 MiB
		"100 that ends the stream": {func(e *exchange, id uint32) {
			e.endHeader(id, ":status", "100")
		}, "S.PROTOCOL"},

		"100, then data": {func(e *exchange, id uint32) {
			e.header(id, ":status", "100")
			e.data(id, "x")
		}, "S.PROTOCOL"},
		"100, then trailers": {func(e *exchange, id uint32) {
			e.header(id, ":status", "100")
			e.endHeader(id, "a", "b")
		}, "S.PROTOCOL"},

		"bytes above ASCII in a value": headerFault("ok", ":status", "200", "a", "\xc3\xa4\xff"),
		"empty value":                  headerFault("ok", ":status", "200", "a", ""),
		"a field twice":                headerFault("ok", ":status", "200", "a", "b", "a", "c"),
		"status 599":                   headerFault("ok", ":status", "599"),
	})
}

// Trailers end a stream, unless they are malformed.
func TestFaultTrailers(t *testing.T) {
	trailers := func(want string, fields ...string) fault {
		return fault{func(e *exchange, id uint32) { e.endHeader(id, fields...) }, want}
	}
	runFaults(t, states["open"], map[string]fault{
		"none":          trailers("end"),
		"some":          trailers("end", "grpc-status", "0", "checksum", "abc"),
		"not the end":   headerFault("S.PROTOCOL/C", "grpc-status", "0"),
		"pseudo field":  trailers("S.PROTOCOL/C", ":status", "200"),
		"upper case":    trailers("S.PROTOCOL", "Checksum", "x"),
		"empty name":    trailers("S.PROTOCOL", "", "x"),
		"line feed":     trailers("S.PROTOCOL", "a", "b\nc"),
		"after the end": {func(e *exchange, id uint32) { e.endData(id, ""); e.endHeader(id, "a", "b") }, "G.STREAM_CLOSED/end"},
		"upper case, after the end": {func(e *exchange, id uint32) {
			e.endData(id, "")
			e.endHeader(id, "Checksum", "x")
		}, "G.STREAM_CLOSED/end"},
		"100 in the body": headerFault("S.PROTOCOL/C", ":status", "100"),
	})
}

// The length that a response declares has to be that of its body.
func TestFaultContentLength(t *testing.T) {
	respond := func(want, length string, send func(e *exchange, id uint32)) fault {
		return fault{func(e *exchange, id uint32) {
			e.header(id, ":status", "200", "content-length", length)
			send(e, id)
		}, want}
	}
	end := func(text string) func(*exchange, uint32) {
		return func(e *exchange, id uint32) { e.endData(id, text) }
	}
	runFaults(t, states["waiting"], map[string]fault{
		"as declared":       respond("end", "4", end("text")),
		"0 as declared":     respond("end", "0", end("")),
		"shorter":           respond("S.PROTOCOL/err", "5", end("text")),
		"shorter, trailers": respond("S.PROTOCOL/err", "5", func(e *exchange, id uint32) { e.data(id, "text"); e.endHeader(id, "a", "b") }),
		"longer":            respond("S.PROTOCOL/err", "3", end("text")),
		"longer, not ended": respond("S.PROTOCOL/S.CANCEL", "3", func(e *exchange, id uint32) { e.data(id, "text") }),
		"a negative length": respond("S.PROTOCOL/end", "-1", end("text")),
		"no number":         respond("S.PROTOCOL/end", "four", end("text")),
		"too large":         respond("S.PROTOCOL/end", "99999999999999999999", end("text")),
		"END_STREAM with the header": {func(e *exchange, id uint32) {
			e.endHeader(id, ":status", "200", "content-length", "4")
		}, "S.PROTOCOL/err"},
		"two lengths": {func(e *exchange, id uint32) {
			e.header(id, ":status", "200", "content-length", "4", "content-length", "5")
			e.endData(id, "text")
		}, "S.PROTOCOL/end"},
		"204 without a body": {func(e *exchange, id uint32) { e.endHeader(id, ":status", "204") }, "end"},
		"304 with a length":  {func(e *exchange, id uint32) { e.endHeader(id, ":status", "304", "content-length", "4") }, "end/err"},
	})
}

// Header blocks that cannot be decoded end the connection: the tables of both sides
// would differ from then on (RFC 9113, section 4.3).
func TestFaultHeaderBlock(t *testing.T) {
	block := func(want string, parts ...string) fault {
		return fault{func(e *exchange, id uint32) {
			e.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, strings.Join(parts, ""))
		}, want}
	}
	const ok = "\x88" // :status 200 of the static table
	runFaults(t, states["waiting"], map[string]fault{
		"static table":               block("ok", ok),
		"index 0":                    block("C.COMPRESSION", ok, "\x80"),
		"index beyond the tables":    block("C.COMPRESSION", ok, "\xff\x7f"),
		"index without an end":       block("C.COMPRESSION", ok, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
		"half an index":              block("C.COMPRESSION", ok, "\xff\xff"),
		"half a name":                block("C.COMPRESSION", ok, "\x00\x05ab"),
		"half a value":               block("C.COMPRESSION", ok, "\x00\x01a\x05b"),
		"length without an end":      block("C.COMPRESSION", ok, "\x00\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
		"Huffman code of EOS":        block("C.COMPRESSION", ok, "\x00\x01a\x84\xff\xff\xff\xff"),
		"Huffman padding of zeros":   block("C.COMPRESSION", ok, "\x00\x01a\x81\x00"),
		"table update at its start":  block("ok", "\x20", ok),
		"table update above 4096":    block("C.COMPRESSION", "\x3f\xe2\x1f", ok),
		"table update after a field": block("C.COMPRESSION", ok, "\x20"),
	})
}

// A header list may be as large as the client has announced (RFC 9113, section 6.5.2).
// A larger one ends its stream, if the block itself is small: it repeats an entry of the
// table.
func TestFaultHeaderListSize(t *testing.T) {
	const entry = 1 + 4000 + 32 // name, value, and what an entry counts besides
	repeat := func(extra int) func(*exchange, uint32) {
		return func(e *exchange, id uint32) {
			n := e.setting(http2.SettingMaxHeaderListSize, 1<<20)/entry + extra
			value := "\x40\x01a\x7f\xa1\x1e" + strings.Repeat("x", 4000)
			e.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, "\x88"+value+strings.Repeat("\xbe", n-1))
		}
	}
	runFaults(t, states["waiting"], map[string]fault{
		"within": {repeat(-1), "ok"},
		"beyond": {repeat(+1), "S.PROTOCOL"},
	})
}

// Frames between HEADERS and its CONTINUATION, and CONTINUATION of another stream
// (RFC 9113, section 6.10).
func TestFaultContinuation(t *testing.T) {
	begin := func(e *exchange, id uint32) { e.raw(http2.FrameHeaders, 0, id, "\x88") }
	between := func(f func(e *exchange, id uint32)) fault {
		return fault{func(e *exchange, id uint32) { begin(e, id); f(e, id) }, "C.PROTOCOL"}
	}
	runFaults(t, states["waiting"], map[string]fault{
		"PING":                       between(func(e *exchange, _ uint32) { e.ping(1) }),
		"DATA":                       between(func(e *exchange, id uint32) { e.data(id, "x") }),
		"HEADERS":                    between(func(e *exchange, id uint32) { e.ok(id) }),
		"DATA of the other stream":   between(func(e *exchange, _ uint32) { e.data(1, "x") }),
		"GOAWAY":                     between(func(e *exchange, id uint32) { e.goAway(id, http2.ErrCodeNo) }),
		"unknown frame":              between(func(e *exchange, id uint32) { e.raw(0x42, 0, id, "x") }),
		"CONTINUATION of the other":  between(func(e *exchange, _ uint32) { e.raw(http2.FrameContinuation, 4, 1, "") }),
		"CONTINUATION of stream 0":   between(func(e *exchange, _ uint32) { e.raw(http2.FrameContinuation, 4, 0, "") }),
		"CONTINUATION after the end": {func(e *exchange, id uint32) { e.ok(id); e.raw(http2.FrameContinuation, 4, id, "") }, "C.PROTOCOL"},
	})
}

// A header may come in pieces, also of one byte or none.
func TestHeaderInPieces(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		neighbour := e.open("/n")
		r := e.get("/v")
		id := e.request("/v")
		block := e.block(":status", "200", "a", strings.Repeat("long ", 100))
		e.raw(http2.FrameHeaders, 0, id, "")
		for piece := range bytes.SplitSeq(block, nil) {
			e.raw(http2.FrameContinuation, 0, id, string(piece))
		}
		e.raw(http2.FrameContinuation, http2.FlagContinuationEndHeaders, id, "")
		e.wait()
		if got, want := r.status(), 200; got != want {
			t.Fatalf("got status %d (%v), want %d", got, r.failure(), want)
		}
		if got, want := r.resp.Header.Get("a"), strings.Repeat("long ", 100); got != want {
			t.Errorf("got field %q, want %q", got, want)
		}
		e.checkNeighbour(&neighbour, false)
	})
}

// Headers of streams that have ended are decoded all the same: later ones refer to what
// they have put into the table.
func TestHeadersOfClosedStreamsAreDecoded(t *testing.T) {
	for _, state := range []string{"cancelled", "forgotten", "earlier"} {
		t.Run(state, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			r := e.get("/n")
			id := e.request("/n")
			closed := states[state](e)
			e.wait()
			e.header(closed.id, ":status", "200", "field", "of the table")
			e.header(id, ":status", "200", "field", "of the table")
			e.wait()
			if got, want := r.status(), 200; got != want {
				t.Fatalf("got status %d (%v), want %d", got, r.failure(), want)
			}
			if got, want := r.resp.Header.Get("field"), "of the table"; got != want {
				t.Errorf("got field %q, want %q", got, want)
			}
		}))
	}
}
