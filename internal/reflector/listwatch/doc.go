// SPDX-License-Identifier: Apache-2.0

// Package listwatch lists and watches one selection of objects on an API server.
//
// [FromREST] makes a [Source] of one object, selected by its name, over a REST
// client. [FromListerWatcher] makes one of any client-go ListerWatcher. A reflector reads them
// ([github.com/refwatch/refwatch/internal/reflector.New]).
//
// The goroutine that reads a [Stream] blocks in Next until there is an event. A
// [Parkable] stream needs none: it notifies a [Waker] when there is an event. The
// streams of [FromREST] are parkable if the HTTP/2 client of package transport reads
// them.
package listwatch
