// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The streams of all kinds of reads are parked, unless the config has a Transport.
func TestStreamsAreParked(t *testing.T) {
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	newCaches := map[string]cache.NewCacheFunc{
		"parked":        controllerruntime.NewCache(controllerruntime.CacheOptions{}),
		"over net-http": overNetHTTP,
	}
	for name, object := range map[string]client.Object{"typed": &corev1.Secret{}, "metadata": metadata} {
		for how, newCache := range newCaches {
			t.Run(name+", "+how, func(t *testing.T) {
				onServer(t, func(t *testing.T, server *apiserver.Server) {
					testStreams(t, server, newCache, object, how == "parked")
				})
			})
		}
	}
}

func testStreams(t *testing.T, server *apiserver.Server, newCache cache.NewCacheFunc, object client.Object, parked bool) {
	httpClient, err := rest.HTTPClientFor(server.Config()) // as cluster.New does
	if err != nil {
		t.Fatal(err)
	}
	made, err := newCache(server.Config(), cache.Options{HTTPClient: httpClient})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, server: server, client: server.Client(), cache: made}
	defer start(t, made)()
	r.create("tls", "0")
	if err := made.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "tls"}, object); err != nil {
		t.Fatal(err)
	}
	r.update("tls", "1")
	if got := streamReaders(); (got == 0) != parked {
		t.Errorf("got %d goroutines that read streams, want none if they are parked: %v", got, parked)
	}
	if got := r.streams(); got != 1 {
		t.Errorf("got %d streams, want one", got)
	}
}

// streamReaders returns how many goroutines read streams that are not parked.
func streamReaders() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "reflector.(*session).runStream(")
}
