// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// streamReaders returns how many goroutines read streams that are not parked.
func streamReaders() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "reflector.(*session).runStream(")
}

// A stream has no goroutine by default, if the client and the server allow that. Others
// have one, and the store works.
func TestStreamsAreParked(t *testing.T) {
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	hides := func(config *rest.Config) *rest.Config {
		config = objectcache.ConfigFor(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return hidingTripper{next} })
		return config
	}
	blocking := objectcache.WatchOptions{BlockingStreams: true}
	type serve = func(t *testing.T, server *apiserver.Server, config *rest.Config) int
	tests := map[string]struct {
		plain  bool // without TLS
		config func(*rest.Config) *rest.Config
		serve  serve
		want   int
	}{
		"typed":               {false, objectcache.ConfigFor, readersOfSecrets(objectcache.WatchOptions{}), 0},
		"typed, blocking":     {false, objectcache.ConfigFor, readersOfSecrets(blocking), 1},
		"typed, HTTP/1.1":     {true, objectcache.ConfigFor, readersOfSecrets(objectcache.WatchOptions{}), 1},
		"typed, other client": {false, rest.CopyConfig, readersOfSecrets(objectcache.WatchOptions{}), 1},
		"typed, hidden body":  {false, hides, readersOfSecrets(objectcache.WatchOptions{}), 1},
		"from a config": {false, rest.CopyConfig, func(t *testing.T, server *apiserver.Server, config *rest.Config) int {
			resource := objectcache.FromConfig[*corev1.Secret, *corev1.SecretList](config, secrets)
			return readersOf(t, server, resource, objectcache.WatchOptions{})
		}, 0},
		"dynamic": {false, objectcache.ConfigFor, func(t *testing.T, server *apiserver.Server, config *rest.Config) int {
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			return readersOf(t, server, objectcache.Dynamic(client, secrets), objectcache.WatchOptions{})
		}, 1},
		"metadata": {false, objectcache.ConfigFor, func(t *testing.T, server *apiserver.Server, config *rest.Config) int {
			client, err := metadata.NewForConfig(metadata.ConfigFor(config))
			if err != nil {
				t.Fatal(err)
			}
			return readersOf(t, server, objectcache.Metadata(client, secrets), objectcache.WatchOptions{})
		}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: !test.plain})
				if got := test.serve(t, server, test.config(server.Config())); got != test.want {
					t.Errorf("got %d goroutines that read streams, want %d", got, test.want)
				}
			})
		})
	}
}

// hidingTripper hides what else the body of a response can do.
type hidingTripper struct{ http.RoundTripper }

func (h hidingTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := h.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = struct{ io.ReadCloser }{response.Body}
	}
	return response, err
}

func readersOfSecrets(options objectcache.WatchOptions) func(*testing.T, *apiserver.Server, *rest.Config) int {
	return func(t *testing.T, server *apiserver.Server, config *rest.Config) int {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return readersOf(t, server, objectcache.Secrets(client), options)
	}
}

// readersOf returns how many goroutines read the stream of a Secret, after an update.
func readersOf[T cache.Object](t *testing.T, server *apiserver.Server, resource objectcache.Resource[T], options objectcache.WatchOptions) int {
	t.Helper()
	r := &rig{t: t, server: server, client: server.Client()}
	r.create("tls")
	store := newStore(t, resource, options)
	defer runStore(t.Context(), t, store)()
	store.AddReference(namespace, "tls", "pod")
	if _, err := store.Get(t.Context(), namespace, "tls"); err != nil {
		t.Fatal(err)
	}
	r.update("tls", "two")
	if got, err := store.Get(t.Context(), namespace, "tls"); err != nil || got.GetResourceVersion() == "" {
		t.Fatal(err)
	}
	return streamReaders()
}
