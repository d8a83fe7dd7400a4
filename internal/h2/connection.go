// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"net/http"

	"github.com/refwatch/refwatch/internal/redact"
)

// errUnprocessed is wrapped by the errors of requests that the server has certainly not
// processed.
var errUnprocessed = redact.New("the server has not processed the request")

// connection is one HTTP/2 connection (conn).
//
// The pool reserves a slot before it uses a connection, so that the limit of the server
// (MAX_CONCURRENT_STREAMS) is not exceeded once it is known. It calls reserve, taken, limit, reason and refusal with
// its lock held: they do not call connectionEvents.
type connection interface {
	// reserve takes a slot for one stream, if the connection has one and takes new
	// streams. roundTrip or release must follow.
	reserve() bool
	// release gives back a slot that reserve has taken and roundTrip has not used.
	release()
	// taken is how many slots are taken: by open streams, by reservations, and by
	// streams whose end the server may not know yet.
	taken() int
	// limit is how many streams the server allows at a time, and 0 until the server
	// has said it with its first SETTINGS frame. slotFreed follows then.
	limit() int
	// begin lets the connection take so many streams until the server has said how many it
	// allows. It is called once, before the connection is used, and without the lock of the pool.
	begin(streams int)
	// roundTrip sends a request on a reserved slot, and returns the response when its
	// header has come. It wraps errUnprocessed if the server has certainly not
	// processed the request (REFUSED_STREAM, GOAWAY with a lower stream id, a
	// connection that ended before the request was written): it may be sent again on
	// another connection. It may return errMoved, without a response, when moved is closed.
	roundTrip(request *http.Request, moved <-chan struct{}) (*http.Response, error)
	// reason is why the connection takes no new streams, for counters, and refusal the same for users.
	reason() string
	refusal() error
	// probe asks the server for a sign of life. Without one, gone follows.
	probe()
	// close closes the connection; every stream ends. It does not wait for the network.
	close()
}

// connectionEvents is what a connection reports to its pool. Calls come without conn.mu
// held.
type connectionEvents interface {
	// slotFreed is called when a slot may have become free.
	slotFreed(connection)
	// idle is called when the connection has no stream and no reserved slot any more.
	idle(connection)
	// gone is called once, when the connection takes no new streams: it was closed, or
	// the server has sent GOAWAY. Its open streams may go on.
	gone(connection)
}
