// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
)

// Body is the body of a response that this package's HTTP/2 client reads. It is an
// ordinary body, with Read, until Receive is called.
//
// client-go returns it unwrapped from rest.Request.Stream, unless the client has a
// Timeout. A wrapper of the config may hide it; then Read is what remains.
type Body interface {
	// ReadCloser's Read blocks until there is data. Close ends the stream: the server
	// is notified, and Receiver's methods are not called after Close has returned,
	// except for calls that were under way. Close may be called from any goroutine,
	// also from a method of the Receiver, and more than once.
	io.ReadCloser
	// Receive passes all that follows to r, first what has arrived and was not read.
	// It is called once, and not beside Read; Read fails from then on. Methods of r may
	// be called before Receive returns.
	Receive(r Receiver)
	// Consumed returns n bytes of flow-control credit to the server, for data that
	// Receiver.Data did not count as consumed. It may be called from any goroutine and
	// does not wait for the network longer than a write takes.
	Consumed(n int)
	// Untie separates the stream from the context of its request: from here on only
	// Close ends it.
	Untie()
}

// Receiver takes the data of one stream. Its methods are called one at a time, on the
// goroutine that reads the connection: until they return, all streams of the
// connection wait. They must not block. There are two exceptions: Receive itself
// delivers what had arrived before, and if the context of the request ends the stream,
// End is called on a goroutine of its own.
type Receiver interface {
	// Data takes the next bytes of the body. p is valid during the call only. consumed
	// is how many bytes the receiver needs no memory for, from 0 to len(p): the server
	// may send as many again. Body.Consumed counts the others later. A receiver that
	// counts nothing as consumed gets 4 MiB at most.
	Data(p []byte) (consumed int)
	// End is called once, after the last call of Data, with io.EOF at the regular end
	// of the body and an error otherwise. The error holds no data of the body.
	End(err error)
}

type parkingKey struct{}

// WithParking marks the requests made with a context: their streams use this package's
// HTTP/2 client, and their bodies are a [Body] where client-go does not hide it.
func WithParking(ctx context.Context) context.Context {
	return context.WithValue(ctx, parkingKey{}, true)
}

func wantsParking(ctx context.Context) bool { return ctx.Value(parkingKey{}) != nil }
