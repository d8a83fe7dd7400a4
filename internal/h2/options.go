// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"time"
)

// connOptions are the limits of one connection. Zero means the default.
type connOptions struct {
	// pingAfter is how long the server may be silent before it gets a PING: 30 s, as in
	// client-go's transport.
	pingAfter time.Duration
	// pingTimeout is how long it may take to answer: 15 s, as there.
	pingTimeout time.Duration
	// writeTimeout is how long one write may take: 15 s.
	writeTimeout time.Duration
	// streamWindow is how many bytes the server may send on one stream without credit:
	// 4 MiB.
	streamWindow int32
	// maxHeaderList is the largest header that a server may send, in bytes as RFC 9113,
	// section 6.5.2, counts them: 1 MiB.
	maxHeaderList uint32
	// counters may be nil.
	counters *Counters
}

func (o connOptions) withDefaults() connOptions {
	o.pingAfter = cmp.Or(o.pingAfter, 30*time.Second)
	o.pingTimeout = cmp.Or(o.pingTimeout, 15*time.Second)
	o.writeTimeout = cmp.Or(o.writeTimeout, 15*time.Second)
	o.streamWindow = cmp.Or(o.streamWindow, 4<<20)
	o.maxHeaderList = cmp.Or(o.maxHeaderList, 1<<20)
	return o
}

const (
	// connWindow is how many bytes the server may send on all streams of a connection
	// without credit. The windows of the streams bound what is buffered, so that this
	// one is as large as never to matter: a stream that nobody reads must not stop the
	// others.
	connWindow = 1 << 30
	// initialWindow is the window of a connection before a WINDOW_UPDATE (RFC 9113,
	// section 6.9.2).
	initialWindow = 1<<16 - 1
	// readBuffer is the size of a connection's read buffer. Larger reads pass it by. Package
	// crypto/tls has a buffer of its own.
	readBuffer = 1 << 10
	// maxFrame is the largest frame that a server may send, and the largest that it
	// takes unless it has allowed more: the least that RFC 9113 permits.
	maxFrame = 1 << 14
	// maxStreamID is the last id that a stream may have.
	maxStreamID = 1<<31 - 1
	// unlimitedStreams is how many streams a connection carries if the server sets no
	// limit: as many as one of net/http.
	unlimitedStreams = 1000
)
