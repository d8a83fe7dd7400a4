// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"errors"
	"time"
)

// Options says how a server differs from a kube-apiserver with its default flags. The zero value is valid.
type Options struct {
	// InMemory serves plain HTTP/1.1 through net.Pipe instead of TLS on a loopback socket, so that server
	// and clients can live in one bubble of testing/synctest. Only [Server.Config] reaches it then.
	InMemory bool

	// DisableHTTP2 leaves HTTP/1.1 only: every watch takes a connection of its own. In memory it always does.
	DisableHTTP2 bool

	// MaxStreamsPerConnection limits how many requests one HTTP/2 connection carries at a time; clients open
	// further connections, or wait, as they see fit. Default 100, as in kube-apiserver, and for the same reason:
	// Go's client takes 100 for allowed until it has read the server's settings. With less, requests that are
	// sent at the same time may have to wait behind watches on a connection that turns out to be full.
	MaxStreamsPerConnection int

	// DisableWatchList refuses sendInitialEvents with 422, as a server does whose feature gate WatchList is off.
	DisableWatchList bool

	// Token is the bearer token every request must carry. Default: a random one. [Server.Config] knows it.
	Token string

	// BookmarkInterval is the time between two bookmarks on a watch that asked for them. Default one minute.
	BookmarkInterval time.Duration

	// HistoryLimit is how many writes per resource are kept at least, for watches that start at an older
	// version and for consistent paging. Default 10,000.
	HistoryLimit int

	// WatchBuffer is how many events may wait for a slow watcher before its stream is ended. Default 1,000.
	// Buffers take memory only while events wait.
	WatchBuffer int
}

// withDefaults fills in what is zero, and refuses what makes no sense.
func (o Options) withDefaults() (Options, error) {
	if o.MaxStreamsPerConnection < 0 || o.BookmarkInterval < 0 || o.HistoryLimit < 0 || o.WatchBuffer < 0 {
		return o, errors.New("apiserver: negative option: leave it zero for the default")
	}
	o.MaxStreamsPerConnection = cmp.Or(o.MaxStreamsPerConnection, 100)
	o.BookmarkInterval = cmp.Or(o.BookmarkInterval, time.Minute)
	o.HistoryLimit = cmp.Or(o.HistoryLimit, 10_000)
	o.WatchBuffer = cmp.Or(o.WatchBuffer, 1_000)
	if o.Token == "" {
		o.Token = randomToken()
	}
	return o, nil
}
