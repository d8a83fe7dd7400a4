// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// counted returns a config whose connections are counted: open ones, and all.
func counted(config *rest.Config) (_ *rest.Config, open, all *atomic.Int32) {
	open, all = new(atomic.Int32), new(atomic.Int32)
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		made, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		all.Add(1)
		return &countedConn{Conn: made, open: open}, nil
	}
	return config, open, all
}

type countedConn struct {
	net.Conn

	open   *atomic.Int32
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// Clusters that come and go leave no connection of a client that NewCache has made: neither those of streams and
// informers, nor those of requests that were sent before Start, if that is never called.
func TestEndedCacheLeavesNoConnection(t *testing.T) {
	tests := map[string]struct {
		server  apiserver.Options
		options controllerruntime.CacheOptions
		use     func(t *testing.T, c cache.Cache)
	}{
		"unused":            {use: func(*testing.T, cache.Cache) {}},
		"a Get":             {use: getOne},
		"HTTP/1.1":          {server: apiserver.Options{DisableHTTP2: true}, use: getOne},
		"of the stock":      {use: getConfigMap},
		"both, and a List":  {options: controllerruntime.CacheOptions{LiveList: true}, use: listAll},
		"an informer":       {use: informerOf(&corev1.Secret{})},
		"a stock informer":  {use: informerOf(&corev1.ConfigMap{})},
		"hanging":           {use: hang},
		"reads of metadata": {options: controllerruntime.CacheOptions{StockMetadata: true}, use: getOne},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.server.InMemory, test.server.TLS = true, true
				server := apiserver.New(t, test.server)
				if name == "hanging" {
					server.Intercept(hangReads)
				}
				r := &rig{t: t, server: server, client: server.Client()}
				r.create("one", "1")
				config, open, all := counted(server.Config())
				for range 3 {
					c, err := controllerruntime.NewCache(test.options)(config, cache.Options{})
					if err != nil {
						t.Fatal(err)
					}
					stop := start(t, c)
					test.use(t, c)
					stop()
					synctest.Wait()
					if got := open.Load(); got > 0 {
						t.Fatalf("after the end: got %d of %d connections open, want none", got, all.Load())
					}
				}
				if all.Load() == 0 && name != "unused" {
					t.Error("got no connection, want some")
				}
			})
		})
	}
}

func getOne(t *testing.T, c cache.Cache) {
	t.Helper()
	if err := c.Get(t.Context(), keyOfOne, &corev1.Secret{}); err != nil {
		t.Error(err)
	}
}

func getConfigMap(t *testing.T, c cache.Cache) {
	t.Helper()
	if err := c.Get(t.Context(), keyOfOne, &corev1.ConfigMap{}); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

func listAll(t *testing.T, c cache.Cache) {
	t.Helper()
	getOne(t, c)
	getConfigMap(t, c)
	if err := c.List(t.Context(), &corev1.SecretList{}); err != nil {
		t.Error(err)
	}
}

func informerOf(object client.Object) func(t *testing.T, c cache.Cache) {
	return func(t *testing.T, c cache.Cache) {
		t.Helper()
		if _, err := c.GetInformer(t.Context(), object); err != nil {
			t.Error(err)
		}
		getOne(t, c)
	}
}

// hangReads answers no list and no watch of an object.
func hangReads(ctx context.Context, request apiserver.Request) *metav1.Status {
	if request.Verb == "list" || request.Verb == "watch" || request.Verb == "get" && request.Name != "" {
		<-ctx.Done()
	}
	return nil
}

// hang leaves requests without an answer.
func hang(t *testing.T, c cache.Cache) {
	t.Helper()
	for _, object := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := c.Get(ctx, keyOfOne, object); err == nil {
			t.Errorf("%T: got no error, want a time-out", object)
		}
		cancel()
	}
}

// Requests that are sent before Start leave no connection for longer than two seconds, also if it is never called.
func TestCacheThatNeverStartsLeavesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		config, open, all := counted(server.Config())
		for range 3 {
			c, err := controllerruntime.NewCache(controllerruntime.CacheOptions{LiveList: true})(config, cache.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
				if _, err := c.GetInformer(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.List(t.Context(), &corev1.SecretList{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if got := open.Load(); got > 0 {
				t.Fatalf("got %d of %d connections open, want none", got, all.Load())
			}
		}
		if all.Load() == 0 {
			t.Error("got no connection, want some")
		}
	})
}

// The connections of a client that was passed, and of a transport that was passed, stay open.
func TestEndedCacheKeepsConnectionsOfOthers(t *testing.T) {
	t.Run("HTTPClient", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
			config, open, _ := counted(server.Config())
			joined, err := cluster.New(config, func(options *cluster.Options) {
				options.NewCache = controllerruntime.NewCache(controllerruntime.CacheOptions{LiveList: true})
			})
			if err != nil {
				t.Fatal(err)
			}
			stop := start(t, joined)
			if err := joined.GetClient().List(t.Context(), &corev1.SecretList{}); err != nil {
				t.Error(err)
			}
			_ = joined.GetClient().Get(t.Context(), keyOfOne, &corev1.Secret{})
			stop()
			synctest.Wait()
			if got := open.Load(); got != 1 {
				t.Errorf("after the end: got %d connections open, want that of the cluster's client", got)
			}
			if err := joined.GetAPIReader().List(t.Context(), &corev1.SecretList{}); err != nil || open.Load() != 1 {
				t.Errorf("the cluster's client after the end: got %v and %d connections, want none and one", err, open.Load())
			}
			utilnet.CloseIdleConnectionsFor(joined.GetHTTPClient().Transport)
			time.Sleep(time.Second)
			if got := open.Load(); got != 0 {
				t.Errorf("after CloseIdleConnections of the cluster's client: got %d connections, want none", got)
			}
		})
	})
	t.Run("Transport", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
			config, open, _ := counted(server.Config())
			shared, err := rest.TransportFor(config)
			if err != nil {
				t.Fatal(err)
			}
			c, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(&rest.Config{Host: config.Host, Transport: shared}, cache.Options{})
			if err != nil {
				t.Fatal(err)
			}
			stop := start(t, c)
			_ = c.Get(t.Context(), keyOfOne, &corev1.Secret{})
			stop()
			synctest.Wait()
			if got := open.Load(); got == 0 {
				t.Error("after the end: got no connection open, want those of the transport")
			}
			if response, err := (&http.Client{Transport: shared}).Get(config.Host + "/version"); err != nil {
				t.Errorf("the transport after the end: %v", err)
			} else {
				_ = response.Body.Close()
			}
		})
	})
}
