// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// bodyHider is a wrapper of a client's transport that replaces the body of each response.
type bodyHider struct{ http.RoundTripper }

func (h bodyHider) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := h.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = struct{ io.ReadCloser }{response.Body}
	}
	return response, err
}

// Status, Stats and the Gate say whether streams are parked, and why not. One line of the
// log says why not, whatever the number of streams.
func TestWhetherStreamsAreParked(t *testing.T) {
	tls := apiserver.Options{InMemory: true, TLS: true}
	http1 := apiserver.Options{InMemory: true, TLS: true, DisableHTTP2: true}
	same := func(config *rest.Config) *rest.Config { return config }
	hiding := func(config *rest.Config) *rest.Config {
		config.Wrap(func(base http.RoundTripper) http.RoundTripper { return bodyHider{base} })
		return resource.ConfigFor(config)
	}
	withTransport := func(config *rest.Config) *rest.Config {
		config, err := clients.NetHTTP(config)
		if err != nil {
			t.Fatal(err)
		}
		return resource.ConfigFor(config)
	}
	const notPassed = "do not pass the transport of ConfigFor"
	type test struct {
		server apiserver.Options
		config func(*rest.Config) *rest.Config
		check  func(t *testing.T, config *rest.Config, parked int, why string)
		parked int
		why    string // part of the reason; empty if there is none
	}
	tests := map[string]test{
		"parked":                      {tls, resource.ConfigFor, typed, 3, ""},
		"FromConfig":                  {tls, same, fromConfig, 3, ""},
		"with a Transport":            {tls, withTransport, typed, 0, notPassed},
		"FromConfig with a Transport": {tls, withTransport, fromConfig, 0, notPassed},
		"not of ConfigFor":            {tls, same, typed, 0, notPassed},
		"server with HTTP/1.1":        {http1, resource.ConfigFor, typed, 0, "does not speak HTTP/2 over TLS"},
		"server without TLS":          {apiserver.Options{InMemory: true}, resource.ConfigFor, typed, 0, "does not speak HTTP/2 over TLS"},
		"hidden body":                 {tls, hiding, typed, 0, "a wrapper of the client's config, or its Timeout"},
		"dynamic client":              {tls, resource.ConfigFor, ofDynamic, 0, "decodes its streams itself"},
		"metadata client":             {tls, resource.ConfigFor, ofMetadata, 0, "decodes its streams itself"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, test.server)
				test.check(t, test.config(server.Config()), test.parked, test.why)
			})
		})
	}
}

var secretsGVR = corev1.SchemeGroupVersion.WithResource("secrets")

func typed(t *testing.T, config *rest.Config, parked int, why string) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	wantParked(t, resource.Secrets(client), parked, why)
}

func fromConfig(t *testing.T, config *rest.Config, parked int, why string) {
	resource := resource.FromConfig[*corev1.Secret, *corev1.SecretList](config, secretsGVR)
	wantParked(t, resource, parked, why)
}

func ofDynamic(t *testing.T, config *rest.Config, parked int, why string) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	wantParked(t, clients.Dynamic(client, secretsGVR), parked, why)
}

func ofMetadata(t *testing.T, config *rest.Config, parked int, why string) {
	client, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		t.Fatal(err)
	}
	wantParked(t, clients.Metadata(client, secretsGVR), parked, why)
}

// wantParked checks how many of three streams are parked, and why the others are not.
func wantParked[T cache.Object](t *testing.T, resource resource.Resource[T], parked int, why string) {
	t.Helper()
	gate := objectcache.NewGate(objectcache.GateOptions{})
	store := newStore(t, resource, objectcache.WatchOptions{Gate: gate})
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2), ktesting.BufferLogs(true)))
	stop := runStore(klog.NewContext(t.Context(), logger), t, store)
	for i := range 3 {
		store.AddReference(namespace, fmt.Sprint("tls-", i), "pod-1")
	}
	synctest.Wait()
	inStatus := 0
	for status := range store.Statuses() {
		if status.Phase != objectcache.PhaseAbsent || !status.NotUpdatedSince.IsZero() {
			t.Errorf("status: got %+v, want it watching", status)
		}
		if status.Parked {
			inStatus++
		}
	}
	if got := store.Stats().ParkedStreams; got != parked || inStatus != parked {
		t.Errorf("parked: got %d in Stats and %d in Statuses, want %d", got, inStatus, parked)
	}
	if got := readers(); got != 3-parked {
		t.Errorf("got %d goroutines that read streams, want %d", got, 3-parked)
	}
	wantReason(t, gate.Status().NotParked, logText(logger), why)
	stop()
	if got := store.Stats(); got.OpenStreams != 0 || got.ParkedStreams != 0 {
		t.Errorf("in the end: got %d open streams, %d parked, want none", got.OpenStreams, got.ParkedStreams)
	}
}

// wantReason checks that an error, and one line of a log, say why streams are not parked.
func wantReason(t *testing.T, err error, log, why string) {
	t.Helper()
	lines := strings.Count(log, "A stream could not be parked")
	if why == "" {
		if err != nil || lines != 0 {
			t.Errorf("got the reason %v and %d lines, want none:\n%s", err, lines, log)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), why) || lines != 1 || !strings.Contains(log, why) {
		t.Errorf("got the reason %v and %d lines, want %q and one:\n%s", err, lines, why, log)
	}
}
