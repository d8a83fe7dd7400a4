// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"io"
)

type arrivalsKey struct{}

// WithArrivals returns a context for requests of a [RESTResource]: each time a part of the body of an answer has
// arrived, arrived is called. It is not called for the body of an error, nor once the stream is parked. It must return
// soon. The answer may be large, and the way to the server slow.
func WithArrivals(ctx context.Context, arrived func()) context.Context {
	return context.WithValue(ctx, arrivalsKey{}, arrived)
}

// arrivalsOf returns nil for a context that is not from WithArrivals.
func arrivalsOf(ctx context.Context) func() {
	arrived, _ := ctx.Value(arrivalsKey{}).(func())
	return arrived
}

// arrivals reads a body.
type arrivals struct {
	body    io.Reader
	arrived func() // may be nil
}

func (a arrivals) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if n > 0 && a.arrived != nil {
		a.arrived()
	}
	return n, err
}
