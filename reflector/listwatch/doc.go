// SPDX-License-Identifier: Apache-2.0

// Package listwatch lists and watches one selection of objects on an API server.
//
// [FromREST] makes a [Source] of one object, selected by its name, over a REST
// client; [FromRESTNamespace] makes one of several objects of a namespace.
// [FromListerWatcher] makes one of any client-go ListerWatcher. A reflector reads them
// ([github.com/refwatch/refwatch/reflector.New]).
package listwatch
