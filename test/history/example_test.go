// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
)

// This example records the calls of a store, as a program in production would, and checks them afterwards. The program
// writes to a file instead of the buffer.
func ExampleNewStore() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	watched, err := objectcache.NewWatchStore(resource.Secrets(server.Client()), objectcache.WatchOptions{})
	if err != nil {
		log.Fatal(err)
	}

	var trace bytes.Buffer
	recorder := history.NewRecorder(history.Options{Output: &trace, IncompleteWrites: true})
	secrets := history.NewStore(watched, "secrets", recorder)

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })
	secrets.AddReference("default", "tls", "pod")
	_, err = secrets.Get(ctx, "default", "tls")
	fmt.Println(err)
	cancel()
	running.Wait()

	if err := recorder.Err(); err != nil {
		log.Fatal(err) // the trace is not complete
	}
	report, err := history.Check(&trace, history.Limits{Fresh: 15 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Events, "events,", report.Count, "violations")
	for _, violation := range report.Violations {
		fmt.Println(violation)
	}
	// Output:
	// secrets "default/tls" not found
	// 5 events, 0 violations
}
