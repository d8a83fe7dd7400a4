// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configures a server. The zero value behaves as a kube-apiserver with its default flags.
type Options struct {
	// InMemory serves HTTP/1.1 without TLS over net.Pipe instead of TLS on a loopback socket, so that server and
	// clients can run in one bubble of testing/synctest. Only clients made from [Server.Config] can reach the server.
	//
	// From Go 1.27 on, set TLS too if the client closes watches while it reads them, as client-go's do: over HTTP/1.1
	// net/http then waits for a mutex that the reader holds, and the time of a bubble stands still.
	InMemory bool

	// TLS makes a server with InMemory serve TLS, with HTTP/2 and HTTP/1.1, as a server on a socket always does. Each
	// connection takes a millisecond of computation more.
	TLS bool

	// DisableHTTP2 serves HTTP/1.1 only, where every watch takes a connection of its own. InMemory without TLS implies
	// it.
	DisableHTTP2 bool

	// MaxStreamsPerConnection is the maximum number of concurrent requests on one HTTP/2 connection. A client that
	// needs more opens another connection, or waits. Default 100, as in kube-apiserver. Go's client assumes 100 until
	// it has read the server's settings: with less, a request may be sent on a connection that is already full of
	// watches, and wait until one ends.
	MaxStreamsPerConnection int

	// DisableWatchList refuses sendInitialEvents with 422, as kube-apiserver does without the feature gate WatchList.
	DisableWatchList bool

	// CustomResources are served beside the built-in resources. Default: none.
	CustomResources []CustomResource

	// Token is the bearer token that every request must have. [Server.Config] contains it. Default: a random token.
	Token string

	// BookmarkInterval is the time between two bookmarks of a watch with allowWatchBookmarks. Default one minute.
	BookmarkInterval time.Duration

	// HistoryLimit is the minimum number of writes that the server keeps per resource, for watches at an older version
	// and for consistent paging. Default 10,000.
	HistoryLimit int

	// WatchBuffer is the maximum number of events in the queue of a watch. The server ends a watch with more. Default
	// 1,000. A queue takes memory only while it has events.
	WatchBuffer int
}

// withDefaults replaces zero values with their defaults. It returns an error for a value that is out of range.
func (o Options) withDefaults() (Options, error) {
	if o.MaxStreamsPerConnection < 0 || o.BookmarkInterval < 0 || o.HistoryLimit < 0 || o.WatchBuffer < 0 {
		return o, errors.New("apiserver: negative option: use zero for the default")
	}
	o.MaxStreamsPerConnection = cmp.Or(o.MaxStreamsPerConnection, 100)
	o.BookmarkInterval = cmp.Or(o.BookmarkInterval, time.Minute)
	o.HistoryLimit = cmp.Or(o.HistoryLimit, 10_000)
	o.WatchBuffer = cmp.Or(o.WatchBuffer, 1_000)
	if o.Token == "" {
		o.Token = randomToken()
	}
	return o, o.validateCustomResources()
}

// validateCustomResources returns an error if a custom resource is invalid, or if its group already has a resource or
// kind of that name.
func (o Options) validateCustomResources() error {
	resources, kinds := map[schema.GroupResource]bool{}, map[schema.GroupKind]bool{}
	for _, r := range builtInResources {
		resources[r.groupResource()], kinds[r.gvk().GroupKind()] = true, true
	}
	for _, custom := range o.CustomResources {
		if err := custom.validate(); err != nil {
			return err
		}
		r := custom.resource()
		if resources[r.groupResource()] || kinds[r.gvk().GroupKind()] {
			return fmt.Errorf("apiserver: custom resource %+v: the group already has this resource or kind", custom)
		}
		resources[r.groupResource()], kinds[r.gvk().GroupKind()] = true, true
	}
	return nil
}

// resources returns the resources that the server serves, in the order of discovery.
func (o Options) resources() []*resource {
	all := slices.Clone(builtInResources)
	for _, custom := range o.CustomResources {
		all = append(all, custom.resource())
	}
	return all
}
