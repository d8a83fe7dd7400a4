// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const namespace = "test"

// newServer starts a server with a Secret of each name, in edition "1", and a client of it.
func newServer(t *testing.T, names ...string) (*Server, kubernetes.Interface) {
	t.Helper()
	return newSlowServer(t, 0, names...)
}

// newSlowServer starts a server that answers after a latency.
func newSlowServer(t *testing.T, latency time.Duration, names ...string) (*Server, kubernetes.Interface) {
	t.Helper()
	s, err := Start(latency)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		put(t, s, name, []byte("1"))
	}
	config := &rest.Config{Host: s.Host(), TLSClientConfig: rest.TLSClientConfig{CAData: s.CA()}, QPS: -1}
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	return s, client
}

func put(t *testing.T, s *Server, name string, value []byte) {
	t.Helper()
	if err := s.Put(t.Context(), secretWith(name, value)); err != nil {
		t.Fatal(err)
	}
}

func secretWith(name string, value []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"value": value},
	}
}

// open opens a watch that begins with the state.
func open(t *testing.T, client kubernetes.Interface, name string) watch.Interface {
	t.Helper()
	w, err := client.CoreV1().Secrets(namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, AllowWatchBookmarks: true,
		SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// expect receives an event.
func expect(t *testing.T, w watch.Interface, kind watch.EventType, value []byte) {
	t.Helper()
	event := <-w.ResultChan()
	secret, ok := event.Object.(*corev1.Secret)
	if event.Type != kind || !ok || !bytes.Equal(secret.Data["value"], value) {
		t.Fatalf("got %s of a %T, want %s with %d bytes", event.Type, event.Object, kind, len(value))
	}
	if kind == watch.Bookmark && secret.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Error("the bookmark does not end the initial events")
	}
}

// await waits until the server has a number of streams.
func await(t *testing.T, s *Server, streams int) {
	t.Helper()
	for s.Stats().Streams != streams {
		<-time.After(time.Millisecond)
	}
}

func TestWatchBeginsWithTheState(t *testing.T) {
	s, client := newServer(t, "a")
	w, missing := open(t, client, "a"), open(t, client, "missing")
	expect(t, w, watch.Added, []byte("1"))
	expect(t, w, watch.Bookmark, nil)
	expect(t, missing, watch.Bookmark, nil)
	put(t, s, "a", []byte("2"))
	put(t, s, "missing", []byte("1"))
	expect(t, w, watch.Modified, []byte("2"))
	expect(t, missing, watch.Added, []byte("1"))
	w.Stop()
	missing.Stop()
	await(t, s, 0)
}

// A watch that follows a list gets only what is newer.
func TestListAndWatch(t *testing.T) {
	s, client := newServer(t, "a", "b")
	list, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "a" {
		t.Fatalf("got %v, %v; want a list of a", list, err)
	}
	w, err := client.CoreV1().Secrets(namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=a", ResourceVersion: list.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	await(t, s, 1)
	put(t, s, "a", []byte("2"))
	expect(t, w, watch.Modified, []byte("2"))
}

// Large events wait for flow control, and do not stop the other streams of the connection.
func TestLargeEvents(t *testing.T) {
	s, client := newServer(t, "large", "small")
	w, small := open(t, client, "large"), open(t, client, "small")
	for _, w := range []watch.Interface{w, small} {
		expect(t, w, watch.Added, []byte("1"))
		expect(t, w, watch.Bookmark, nil)
	}
	if got := s.Neighbours("large"); !slices.Equal(got, []string{"small"}) {
		t.Fatalf("neighbours: got %v, want small", got)
	}
	const events = 20 // exceed every window
	value := bytes.Repeat([]byte{'x'}, 1<<20)
	sent := make(chan error, 1)
	go func() {
		var err error
		for range events {
			err = errors.Join(err, s.Put(t.Context(), secretWith("large", value)))
		}
		sent <- err
	}()
	put(t, s, "small", []byte("2"))
	expect(t, small, watch.Modified, []byte("2")) // nobody reads the large events
	for range events {
		expect(t, w, watch.Modified, value)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A late answer is that of a server without latency.
func TestLatency(t *testing.T) {
	_, client := newSlowServer(t, time.Millisecond, "a")
	w := open(t, client, "a")
	expect(t, w, watch.Added, []byte("1"))
	expect(t, w, watch.Bookmark, nil)
	list, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("got %v, %v; want a list of a", list, err)
	}
}

// Nothing is left of a request that ends before its answer. The server closes at once.
func TestEndBeforeTheAnswer(t *testing.T) {
	s, client := newSlowServer(t, time.Hour, "a")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for s.Stats().Waiting == 0 {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	if _, err := client.CoreV1().Secrets(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"}); err == nil {
		t.Error("got an answer, want none within an hour")
	}
}

func TestOtherRequestsAreNotFound(t *testing.T) {
	_, client := newServer(t, "a")
	if _, err := client.CoreV1().Secrets(namespace).Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
		t.Error("a get: got no error, want one")
	}
	if _, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a list of all: got no error, want one")
	}
}

// The stream that exceeds the limit of a connection is refused; the others go on. Requests that wait for their answers
// count.
func TestLimitOfAConnection(t *testing.T) {
	for name, test := range map[string]struct {
		latency          time.Duration
		streams, waiting int
	}{"at once": {0, StreamsPerConnection, 0}, "later": {time.Hour, 0, StreamsPerConnection}} {
		t.Run(name, func(t *testing.T) { testLimitOfAConnection(t, test.latency, test.streams, test.waiting) })
	}
}

func testLimitOfAConnection(t *testing.T, latency time.Duration, streams, waiting int) {
	t.Helper()
	s, _ := newSlowServer(t, latency, "a")
	c, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"h2"}, // its certificate is not what is tested
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	framer := http2.NewFramer(c, c)
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	_ = framer.WriteSettings()
	for i := range StreamsPerConnection + 1 {
		header.Reset()
		path := "/api/v1/namespaces/test/secrets?watch=true&fieldSelector=metadata.name%3Da"
		for name, value := range map[string]string{":method": "GET", ":scheme": "https", ":path": path} {
			_ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: uint32(2*i + 1), BlockFragment: header.Bytes(), EndStream: true, EndHeaders: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if reset, ok := frame.(*http2.RSTStreamFrame); ok {
			if want := uint32(2*StreamsPerConnection + 1); reset.StreamID != want || reset.ErrCode != http2.ErrCodeRefusedStream {
				t.Errorf("got %v, want that stream %d was refused", reset, want)
			}
			break
		}
	}
	want := Stats{Streams: streams, Waiting: waiting, Connections: 1, Accepted: 1, Refused: 1}
	if got := s.Stats(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_ = c.Close()
	for s.Stats().Connections != 0 {
		<-time.After(time.Millisecond)
	}
	await(t, s, 0)
}
