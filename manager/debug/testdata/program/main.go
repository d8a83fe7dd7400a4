// SPDX-License-Identifier: Apache-2.0

// Command program runs a manager and serves HTTP. With the build tag page it serves the debug page. TestPageIsSmall
// compares the sizes of the two programs.
package main

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

func main() {
	client, err := manager.ClientFor(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		panic(err)
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	go func() { _ = secrets.Run(context.Background()) }()
	_ = http.ListenAndServe("127.0.0.1:0", newHandler(secrets))
}
