// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A client with client-go's defaults opens five streams a second, and needs 38 s for
// 200 references. Run logs the limit once, and a Get that times out names it. A client
// without a limit is not affected.
func TestClientWithARateLimit(t *testing.T) {
	const references = 200
	tests := map[string]struct {
		config  func(*rest.Config) *rest.Config
		limited bool
	}{
		"client-go's defaults": {func(c *rest.Config) *rest.Config { return c }, true},
		"another limit":        {func(c *rest.Config) *rest.Config { c.QPS, c.Burst = 10, 5; return c }, true},
		"a limiter": {func(c *rest.Config) *rest.Config {
			c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(10, 5)
			return c
		}, true},
		"no limit":                {func(c *rest.Config) *rest.Config { c.QPS = -1; return c }, false},
		"a limiter without limit": {func(c *rest.Config) *rest.Config { c.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter(); return c }, false},
		"ConfigFor":               {resource.ConfigFor, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true})
				client, err := kubernetes.NewForConfig(test.config(server.Config()))
				if err != nil {
					t.Fatal(err)
				}
				store := newStore(t, resource.Secrets(client), objectcache.WatchOptions{})
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
				stop := runStore(klog.NewContext(t.Context(), logger), t, store)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var all sync.WaitGroup
				errs := make([]error, references)
				for i := range errs {
					name := fmt.Sprint("tls-", i)
					store.AddReference(namespace, name, "pod")
					all.Go(func() { _, errs[i] = store.Get(ctx, namespace, name) })
				}
				all.Wait()
				failed := 0
				for _, err := range errs {
					if errors.Is(err, objectcache.ErrNotSynced) {
						failed++
						if !errors.Is(err, resource.ErrClientLimited) || !strings.Contains(err.Error(), "resource.ConfigFor") {
							t.Fatalf("Get: got %v, want ErrClientLimited and what to do", err)
						}
					}
				}
				if (failed > 0) != test.limited {
					t.Errorf("Gets that failed: got %d, want some: %t", failed, test.limited)
				}
				if got, want := strings.Count(logText(logger), "limits itself"), map[bool]int{true: 1}[test.limited]; got != want {
					t.Errorf("lines about the limit: got %d, want %d", got, want)
				}
				stop()
			})
		})
	}
}

// Mistakes of the program are logged to the logger of Run's context. References to objects that cannot exist are
// logged at level 0 once: users can write many. They cannot write one without a name.
func TestErrorsAreLoggedToRunsLogger(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(1)))
		stop := runStore(klog.NewContext(t.Context(), logger), t, r.Store)
		synctest.Wait()
		for _, name := range []string{"no/name", "no/name", "No-Name", "", "No-Name"} {
			r.AddReference(namespace, name, "pod")
		}
		var none context.Context
		for range r.Changes(none) {
			t.Error("Changes without a context: got one, want none")
		}
		got := logText(logger)
		if count := strings.Count(got, "Reference to an object that is absent for good"); count != 1 || strings.Count(got, "Reference not counted") != 1 || !strings.Contains(got, "invalid name") || !strings.Contains(got, "No changes") {
			t.Errorf("log: got %q, want a line for each, and one for all names that cannot exist", got)
		}
		stop()
	})
}
