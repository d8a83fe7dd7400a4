// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A program serves the page beside its health checks, on a loopback address, and reads the
// JSON of the objects that have a problem.
func Example() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	config := server.Config()
	connections := new(debug.Connections)
	client, err := manager.ClientFor(connections.Track(config)) // counts connections and bytes
	if err != nil {
		panic(err)
	}
	gate := objectcache.NewGate(objectcache.GateOptions{}) // one for all managers of this client
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{Gate: gate})
	if err != nil {
		panic(err)
	}

	handler, err := debug.NewHandler(debug.Options{
		Sources:     map[string]debug.Source{"secrets": secrets},
		Gates:       map[string]*objectcache.Gate{"cluster": gate},
		Connections: connections,
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/refwatch", handler) // for a server on a loopback address

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })
	pod := manager.Owner{Kind: "Pod", Namespace: "default", Name: "web"}
	secrets.SetReferences(pod, types.NamespacedName{Namespace: "default", Name: "tls"})
	_ = secrets.WaitForSync(ctx)

	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/debug/refwatch?phase=Problem&format=json", nil))
	var report debug.Report
	if err := json.Unmarshal(response.Body.Bytes(), &report); err != nil {
		panic(err)
	}
	for _, object := range report.Objects {
		fmt.Println(object.Resource, object.Key(), object.Phase, object.Problem, object.Owners)
	}
	cancel()
	running.Wait()
	// Output: secrets default/tls Absent Absent [Pod default/web]
}
