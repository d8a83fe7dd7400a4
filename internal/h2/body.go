// SPDX-License-Identifier: Apache-2.0

package h2

import "io"

// Body is the body of a response that this package's HTTP/2 client reads. It is an
// ordinary body, with Read, until Receive is called.
//
// rest.Request.Stream of client-go returns it as it is, unless the client has a Timeout. A
// wrapper of the config may hide it ([WhyNoBody]); then Read is what remains.
type Body interface {
	// Read blocks until there is data. Close ends the stream and notifies the server.
	// No method of the Receiver is called after Close has returned, except for a call
	// that was under way. Close may be called from any goroutine, also from a method of
	// the Receiver, and more than once. Neither Close nor Consumed waits for the network.
	io.ReadCloser
	// Receive passes all data to r from now on, first the data that has arrived and was
	// not read. It is called once, and not while Read runs; Read fails from then on.
	// Methods of r may be called before Receive returns.
	Receive(r Receiver)
	// Consumed returns n bytes of flow-control credit to the server, for data that
	// Receiver.Data did not count as consumed. It may be called from any goroutine.
	Consumed(n int)
	// Detach separates the stream from the context of its request, which may then be
	// released: from here on only Close ends the stream. It may be called once the
	// response is there.
	Detach()
}

// Receiver takes the data of one stream. Its methods are called one at a time, on the
// goroutine that reads the connection: until they return, all streams of the
// connection wait. They must not block. Data that arrived before Receive is passed on the
// goroutine that calls Receive. End is called on a goroutine of its own if the context of
// the request has ended.
type Receiver interface {
	// Data takes the next bytes of the body. p is valid during the call only. Data
	// returns for how many of them, from 0 to len(p), the server gets flow-control credit
	// at once. The receiver gives the credit for the others later, by Body.Consumed. A
	// server without credit sends 4 MiB at most.
	Data(p []byte) (consumed int)
	// End is called once, after the last call of Data, with io.EOF at the regular end
	// of the body and an error otherwise. The error holds no data of the body.
	End(err error)
}
