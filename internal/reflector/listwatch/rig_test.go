// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/apiserver"
)

// This file is the rig of all tests of the package. Three servers answer:
//
//   - overTheWire: an API server in the bubble of the test, with each encoding
//   - alwaysAnswers: a server that answers each request with the same body
//   - streamOf: a body alone, made of frames
//
// Each object holds canary: checkSecrecy looks for it in an error.

// canary is the data of every object. It must appear in no error, and in no buffer that
// is kept.
const canary = "canary-canary-canary"

func canarySecret() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tls", ResourceVersion: "5"},
		Data:       map[string][]byte{"password": []byte(canary)},
		StringData: map[string]string{"text": canary},
	}
}

func named(name string) *corev1.Secret {
	secret := canarySecret()
	secret.Name = name
	return secret
}

// checkSecrecy reports object data in the text of an error.
func checkSecrecy(t testing.TB, err error) {
	t.Helper()
	text := fmt.Sprintf("%v %+v %#v", err, err, err)
	for _, form := range []string{"canary", base64.StdEncoding.EncodeToString([]byte(canary))[:12], fmt.Sprintf("%x", canary)[:12]} {
		if strings.Contains(text, form) {
			t.Errorf("error: got object data (%q) in %s", form, text)
		}
	}
}

// protobufFrame and jsonFrame return an event as a server sends it.
func protobufFrame(t testing.TB, kind watch.EventType, object runtime.Object) []byte {
	t.Helper()
	raw, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), object)
	if err != nil {
		t.Fatal(err)
	}
	event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
	frame, err := runtime.Encode(protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme), event)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

func jsonFrame(t testing.TB, kind watch.EventType, object runtime.Object) []byte {
	t.Helper()
	frame, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		t.Fatal(err)
	}
	return append(frame, '\n')
}

type framing func(testing.TB, watch.EventType, runtime.Object) []byte

var framings = map[string]framing{"protobuf": protobufFrame, "JSON": jsonFrame}

func streamOf(body io.Reader) *restStream {
	return &restStream{body: io.NopCloser(body), source: &restSource{resource: secretsOf(versionClient{version: corev1.SchemeGroupVersion})}}
}

// versionClient is a client of a group and version. It may send nothing.
type versionClient struct {
	rest.Interface

	version schema.GroupVersion
}

func (c versionClient) APIVersion() schema.GroupVersion { return c.version }

// drain reads a stream to its end.
func drain(stream *restStream) (events []watch.Event, err error) {
	for {
		event, err := stream.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
}

// wire is an API server and a source of the secret default/tls on it.
type wire struct {
	t      *testing.T
	server *apiserver.Server
	client kubernetes.Interface
	source Source
}

func newWire(t *testing.T, contentType string) *wire {
	t.Helper()
	// With TLS for HTTP/2: see Options.InMemory.
	server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
	config := server.Config()
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, server: server, client: client}
	w.source = FromREST(secretsOf(client.CoreV1().RESTClient()), "default", "tls")
	return w
}

func secretsOf(client rest.Interface) *RESTResource {
	return &RESTResource{
		Client:    client,
		Name:      "secrets",
		NewObject: func() runtime.Object { return &corev1.Secret{} },
		NewList:   func() runtime.Object { return &corev1.SecretList{} },
	}
}

func (w *wire) write(name, value string) *corev1.Secret {
	w.t.Helper()
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"password": []byte(value)}}
	written, err := w.client.CoreV1().Secrets("default").Update(w.t.Context(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		written, err = w.client.CoreV1().Secrets("default").Create(w.t.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return written
}

func (w *wire) watch(options metav1.ListOptions) Stream {
	w.t.Helper()
	stream, err := w.source.Watch(w.t.Context(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = stream.Close() })
	return stream
}

func (w *wire) next(stream Stream, kind watch.EventType) runtime.Object {
	w.t.Helper()
	event, err := stream.Next()
	if err != nil || event.Type != kind {
		w.t.Fatalf("Next: got %s and %v, want %s", event.Type, err, kind)
	}
	return event.Object
}

// overTheWire runs f with each encoding, in a bubble.
func overTheWire(t *testing.T, f func(*testing.T, *wire)) {
	t.Helper()
	for name, contentType := range map[string]string{"protobuf": runtime.ContentTypeProtobuf, "JSON": runtime.ContentTypeJSON} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newWire(t, contentType)) })
		})
	}
}

// alwaysAnswers returns a client of a server that answers each request with a body. It
// stores the path and the field selector of the last request.
func alwaysAnswers(t *testing.T, body string, path *string) rest.Interface {
	t.Helper()
	config := &rest.Config{
		Host:    "https://example.test",
		APIPath: "/apis",
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &schema.GroupVersion{Group: "kitchen.test", Version: "v1"},
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		},
		Transport: answering(func(r *http.Request) *http.Response {
			*path = r.URL.Path + "?" + r.URL.Query().Get("fieldSelector")
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)), Request: r,
			}
		}),
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }
