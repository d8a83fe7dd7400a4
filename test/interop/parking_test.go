// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"io"

	"github.com/refwatch/refwatch/reflector/transport"
)

// parking marks ctx for a stream without a goroutine.
func parking(ctx context.Context) context.Context { return transport.WithParking(ctx) }

// drain reads a body to its end, or until ctx ends.
func (c client) drain(ctx context.Context, body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, body)
	_ = body.Close()
}
