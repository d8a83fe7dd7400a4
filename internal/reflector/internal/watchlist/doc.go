// SPDX-License-Identifier: Apache-2.0

// Package watchlist decides how the state of a selection is read: by a WatchList
// (KEP-3157), or by a list followed by a watch.
//
// A [Server] remembers, for each resource, whether the server serves WatchList; all
// reflectors of a gate share it. A [Chooser] adds what one reflector has learned
// about its own selection: rights are given by verb and by name.
package watchlist
