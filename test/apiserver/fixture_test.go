// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/network"
)

// hangTimeout makes a test fail instead of hang. No test takes nearly as long.
const hangTimeout = 2 * time.Minute

// transports are the options for each way to reach a server.
var transports = map[string]Options{"http2": {}, "http1": {DisableHTTP2: true}, "memory": {InMemory: true}, "memory, http2": {InMemory: true, TLS: true}}

// fixture is a server and its clients.
type fixture struct {
	*Server
	t      *testing.T
	client kubernetes.Interface
	http   *http.Client
}

func newFixture(t *testing.T, options Options) *fixture {
	t.Helper()
	s := New(t, options)
	config := s.Config()
	client, err := rest.HTTPClientFor(config)
	check(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return &fixture{Server: s, t: t, client: s.Client(), http: client}
}

// throughNetwork gives the fixture a client with connections of its own, and returns their network.
func (f *fixture) throughNetwork() *network.Network {
	f.t.Helper()
	config := f.Config()
	faults := network.New(config.Dial)
	config.Dial = faults.Dial
	f.client = newClientFor(f.t, config)
	return faults
}

func inBubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
}

func check(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newClientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	return client
}

func newSecret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string][]byte{"key": []byte("value of " + name)},
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.test/app:v1"}}},
	}
}

func (f *fixture) createSecret(secret *corev1.Secret) *corev1.Secret {
	f.t.Helper()
	created, err := f.client.CoreV1().Secrets(secret.Namespace).Create(f.t.Context(), secret, metav1.CreateOptions{})
	check(f.t, err)
	return created
}

func (f *fixture) updateSecret(secret *corev1.Secret, value string) *corev1.Secret {
	f.t.Helper()
	changed := secret.DeepCopy()
	changed.Data = map[string][]byte{"key": []byte(value)}
	updated, err := f.client.CoreV1().Secrets(secret.Namespace).Update(f.t.Context(), changed, metav1.UpdateOptions{})
	check(f.t, err)
	return updated
}

func (f *fixture) deleteSecret(name string) {
	f.t.Helper()
	check(f.t, f.client.CoreV1().Secrets("default").Delete(f.t.Context(), name, metav1.DeleteOptions{}))
}

func (f *fixture) createPod(pod *corev1.Pod) *corev1.Pod {
	f.t.Helper()
	created, err := f.client.CoreV1().Pods(pod.Namespace).Create(f.t.Context(), pod, metav1.CreateOptions{})
	check(f.t, err)
	return created
}

// createNumbered creates count Secrets: s00, s01, and so on.
func (f *fixture) createNumbered(count int) {
	f.t.Helper()
	for i := range count {
		f.createSecret(newSecret(fmt.Sprintf("s%02d", i)))
	}
}

func (f *fixture) listSecrets(options metav1.ListOptions) *corev1.SecretList {
	f.t.Helper()
	list, err := f.client.CoreV1().Secrets("default").List(f.t.Context(), options)
	check(f.t, err)
	return list
}

// watchSecrets opens a watch that is stopped when the test ends.
func (f *fixture) watchSecrets(options metav1.ListOptions) watch.Interface {
	f.t.Helper()
	w, err := f.client.CoreV1().Secrets("default").Watch(f.t.Context(), options)
	check(f.t, err)
	f.t.Cleanup(w.Stop)
	return w
}

// watchList returns the options with which a reflector opens a WatchList.
func watchList() metav1.ListOptions {
	return metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	}
}

func named(name string, options metav1.ListOptions) metav1.ListOptions {
	options.FieldSelector = "metadata.name=" + name
	return options
}

// expect returns the next event. It fails the test if the event has another type, or if the watch ends.
func expect(t *testing.T, w watch.Interface, want watch.EventType) watch.Event {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			t.Fatalf("got the end of the watch, want %s", want)
		}
		if event.Type != want {
			t.Fatalf("got %s %v, want %s", event.Type, event.Object, want)
		}
		return event
	case <-t.Context().Done():
		t.Fatal("got no event before the end of the test")
		return watch.Event{}
	}
}

func metaOf(t *testing.T, event watch.Event) metav1.Object {
	t.Helper()
	obj, ok := event.Object.(metav1.Object)
	if !ok {
		t.Fatalf("got a %T, want an object with metadata", event.Object)
	}
	return obj
}

// response is a raw HTTP response.
type response struct {
	code   int
	header http.Header
	body   []byte
}

// do sends a raw request with the token. headers are pairs of name and value.
func (f *fixture) do(method, path, body string, headers ...string) response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.URL()+path, strings.NewReader(body))
	check(f.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := f.http.Do(req)
	check(f.t, err)
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	check(f.t, err)
	return response{res.StatusCode, res.Header, data}
}

// rawRequest is a request, and the code and a part of its response.
type rawRequest struct {
	method, path, contentType, body string
	code                            int
	want                            string
}

// checkResponses sends requests of paths below root.
func (f *fixture) checkResponses(root string, requests map[string]rawRequest) {
	for name, r := range requests {
		f.t.Run(name, func(t *testing.T) {
			got := f.do(r.method, root+r.path, r.body, "Content-Type", r.contentType)
			if got.code != r.code || !strings.Contains(string(got.body), r.want) {
				t.Errorf("got %d %s, want %d with %s", got.code, got.body, r.code, r.want)
			}
		})
	}
}

// status decodes the body as a Status.
func (r response) status(t *testing.T) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.NewDecoder(bytes.NewReader(r.body)).Decode(&status); err != nil {
		t.Fatalf("got %q, want a Status: %v", r.body, err)
	}
	return status
}

func isTooLarge(err error) bool {
	return apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}
