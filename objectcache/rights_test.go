// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A store without the rights that its strategy needs says so in one line of the log, which names the verb that is
// refused and those that each strategy needs, however many objects there are.
func TestStartWithoutRights(t *testing.T) {
	const advice = "WatchOptions needs list and watch, TTLOptions and DirectOptions need get"
	tests := map[string]struct {
		options objectcache.StoreOptions
		verbs   string // that are allowed
		refused string // the verb that the line names; empty for no line
		reads   bool   // Get returns the object
	}{
		"watch, nothing":    {objectcache.WatchOptions{}, "", "watch", false},
		"watch, get":        {objectcache.WatchOptions{}, "get", "watch", true},  // polled, with GETs
		"watch, list":       {objectcache.WatchOptions{}, "list", "watch", true}, // polled
		"watch, list watch": {objectcache.WatchOptions{}, "list watch", "", true},
		"TTL, nothing":      {objectcache.TTLOptions{}, "", "get", false},
		"TTL, list watch":   {objectcache.TTLOptions{}, "list watch", "get", false},
		"TTL, get":          {objectcache.TTLOptions{}, "get", "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
				r := &rig{t: t, server: server, client: server.Client()}
				const objects = 20
				for i := range objects {
					r.create(fmt.Sprint("tls-", i))
				}
				server.Authorize(func(request apiserver.Request) bool { return strings.Contains(test.verbs, request.Verb) })
				client, err := kubernetes.NewForConfig(resource.ConfigFor(server.Config()))
				if err != nil {
					t.Fatal(err)
				}
				if r.Store, err = objectcache.NewStore(resource.Secrets(client), test.options); err != nil {
					t.Fatal(err)
				}
				logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
				stop := runStore(klog.NewContext(t.Context(), logger), t, r.Store)
				for i := range objects {
					r.AddReference(namespace, fmt.Sprint("tls-", i), "pod")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err = r.Get(ctx, namespace, "tls-0")
				if (err == nil) != test.reads || err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("Get: got %v, want the object: %t", err, test.reads)
				}
				time.Sleep(20 * time.Second)
				stop()
				var lines []string
				for line := range strings.Lines(logText(logger)) {
					if strings.Contains(line, advice) {
						lines = append(lines, line)
					}
				}
				switch {
				case len(lines) != min(1, len(test.refused)):
					t.Errorf("log: got %d lines with %q, want %d", len(lines), advice, min(1, len(test.refused)))
				case len(lines) == 1 && !strings.Contains(lines[0], "cannot "+test.refused):
					t.Errorf("log: got %q, want the verb %q", lines[0], test.refused)
				}
			})
		})
	}
}
