// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := manager.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { httpClient(client).CloseIdleConnections() })
	return client
}

func httpClient(client kubernetes.Interface) *http.Client {
	return client.CoreV1().RESTClient().(*rest.RESTClient).Client
}

func TestClientForDoesNotChangeItsConfig(t *testing.T) {
	config := &rest.Config{
		Host: "https://example.test", QPS: 7, Burst: 9, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter(),
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
	before := rest.CopyConfig(config)
	clientFor(t, config)
	if !reflect.DeepEqual(config, before) || config.WrapTransport != nil || config.Proxy != nil {
		t.Errorf("config: got %v, want it as it was: %v", config, before)
	}
}

// The client has no rate limiter, whatever the config has: the gate is the limit.
func TestClientForDoesNotThrottle(t *testing.T) {
	tests := map[string]*rest.Config{
		"by default":     {},
		"with a QPS":     {QPS: 1, Burst: 1},
		"with a limiter": {RateLimiter: flowcontrol.NewFakeNeverRateLimiter()},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			config.Host = "https://example.test"
			if got := clientFor(t, config).CoreV1().RESTClient().GetRateLimiter(); got != nil {
				t.Errorf("rate limiter: got %T, want none", got)
			}
		})
	}
}

func TestClientForReturnsErrors(t *testing.T) {
	_, err := manager.ClientFor(&rest.Config{Host: "https://example.test", TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}})
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestClientForSpeaksProtobuf(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	client := clientFor(t, server.Config())
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tls"}}
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stream, err := client.CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	if event := <-stream.ResultChan(); event.Type != watch.Added || event.Object.(*corev1.Secret).Name != "tls" {
		t.Errorf("watch: got %v, want the object", event)
	}
	for _, request := range server.Requests() {
		accepts := strings.Split(request.Accept, ",")
		if !strings.HasPrefix(accepts[0], "application/vnd.kubernetes.protobuf") || !strings.Contains(request.Accept, "application/json") {
			t.Errorf("%s accepts %q, want protobuf first, and JSON", request.Verb, request.Accept)
		}
		if request.Verb == "create" && request.ContentType != "application/vnd.kubernetes.protobuf" {
			t.Errorf("create sends %q, want protobuf", request.ContentType)
		}
	}
}

// A server may answer in JSON.
func TestClientForAcceptsJSON(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		const object = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"tls","resourceVersion":"5"}}`
		if r.URL.Query().Get("watch") != "" {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":`+object+"}\n")
			return
		}
		_, _ = io.WriteString(w, object)
	}))
	defer server.Close()
	secrets := clientFor(t, &rest.Config{Host: server.URL}).CoreV1().Secrets("default")
	if got, err := secrets.Get(t.Context(), "tls", metav1.GetOptions{}); err != nil || got.ResourceVersion != "5" {
		t.Errorf("get: got %v and %v, want the object", got, err)
	}
	stream, err := secrets.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	if event := <-stream.ResultChan(); event.Type != watch.Added || event.Object.(*corev1.Secret).ResourceVersion != "5" {
		t.Errorf("watch: got %v, want the object", event)
	}
}

// connection returns the local address of a client's connection.
func connection(t *testing.T, client kubernetes.Interface) (address string) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { address = info.Conn.LocalAddr().String() },
	})
	if _, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	return address
}

// Two clients of one config share no connection. client-go's own clients do.
func TestClientForSharesNoConnection(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	config := server.Config()
	plain := func() kubernetes.Interface {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { httpClient(client).CloseIdleConnections() })
		return client
	}
	shared := connection(t, plain())
	if got := connection(t, plain()); got != shared {
		t.Fatalf("client-go's own: got connections from %s and %s, want one: else the test proves nothing", shared, got)
	}
	first, second := clientFor(t, config), clientFor(t, config)
	one, two := connection(t, first), connection(t, second)
	if one == two || one == shared || two == shared {
		t.Errorf("connections: got %s, %s and client-go's %s, want three", one, two, shared)
	}
	if again := connection(t, first); again != one {
		t.Errorf("the first client again: got %s, want its connection %s", again, one)
	}
}

// The client uses the proxy of the config.
func TestClientForUsesTheProxy(t *testing.T) {
	hosts := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts <- r.URL.Host
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer proxy.Close()
	config := &rest.Config{Host: "http://example.test", Proxy: func(r *http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, _ = clientFor(t, config).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	select {
	case got := <-hosts:
		if got != "example.test" {
			t.Errorf("proxy: got a request for %q, want example.test", got)
		}
	default:
		t.Error("proxy: got no request, want one")
	}
}

// A Timeout would end every stream.
func TestClientForHasNoTimeout(t *testing.T) {
	client := clientFor(t, &rest.Config{Host: "https://example.test", Timeout: time.Second})
	if got := httpClient(client).Timeout; got != 0 {
		t.Errorf("Timeout: got %v, want none", got)
	}
}

// transports returns the types of a client's RoundTrippers, the outermost first.
func transports(client kubernetes.Interface) (all []string) {
	next := httpClient(client).Transport
	for next != nil {
		all = append(all, fmt.Sprintf("%T", next))
		wrapper, ok := next.(utilnet.RoundTripperWrapper)
		if !ok {
			break
		}
		next = wrapper.WrappedRoundTripper()
	}
	return all
}

// The transport of streams is next to client-go's. A RoundTripper of the config sees
// the complete response.
func TestClientForHasATransportOfStreams(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	config := server.Config()
	var seen *http.Response
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return wrapper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			seen = response
			return response, err
		})
	})
	if _, err := clientFor(t, config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if seen == nil || seen.Header.Get("Content-Type") == "" || seen.Request == nil {
		t.Errorf("response in the wrapper: got %+v, want it complete", seen)
	}
	const ofStreams = "*h2.Transport"
	all := transports(clientFor(t, server.Config()))
	if at := slices.Index(all, ofStreams); at != len(all)-2 {
		t.Errorf("RoundTrippers: got %q, want %s next to client-go's", all, ofStreams)
	}
}

type wrapper func(*http.Request) (*http.Response, error)

func (w wrapper) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// A Transport in the config is used as it is.
func TestClientForWithATransport(t *testing.T) {
	var requests atomic.Int32
	config := &rest.Config{Host: "https://example.test", Transport: wrapper(func(*http.Request) (*http.Response, error) {
		requests.Add(1)
		return nil, errors.New("no")
	})}
	_, err := clientFor(t, config).CoreV1().Secrets("default").Get(t.Context(), "tls", metav1.GetOptions{})
	if err == nil || requests.Load() == 0 {
		t.Errorf("got %v after %d requests, want the error of the transport", err, requests.Load())
	}
}

// A Timeout that is set on the config holds, though the response is trimmed.
func TestConfigForWithATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status { <-ctx.Done(); return nil })
		config := resource.ConfigFor(server.Config())
		config.Timeout = 10 * time.Second
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if took := time.Since(began); err == nil || took > 10*time.Second {
			t.Errorf("list: got %v after %v, want an error after 10 s", err, took)
		}
	})
}

// One config suits every kind of client, and none of them has a rate limit.
func TestConfigForEveryClient(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	given := server.Config()
	config := resource.ConfigFor(given)
	if given.QPS != 0 || given.AcceptContentTypes != "" || given.WrapTransport != nil {
		t.Errorf("config: got %+v, want it unchanged", given)
	}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if limiter := typed.CoreV1().RESTClient().GetRateLimiter(); limiter != nil {
		t.Errorf("rate limiter: got %v, want none", limiter)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 { // client-go's default allows ten at once and then five a second
		if _, err := untyped.Resource(secrets).Namespace("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatalf("dynamic: %v", err)
		}
		if _, err := partial.Resource(secrets).Namespace("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatalf("metadata: %v", err)
		}
	}
	if resource.ConfigFor(nil) != nil {
		t.Error("nil config: got a config, want nil")
	}
}
