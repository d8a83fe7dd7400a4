// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// source is a source with the given status of objects.
type source []objectcache.Status

func (s source) Statuses() iter.Seq[objectcache.Status] { return slices.Values(s) }

// object returns the status of an object in the namespace default.
func object(name string, phase objectcache.Phase, owners ...types.UID) objectcache.Status {
	status := objectcache.Status{
		Key: types.NamespacedName{Namespace: "default", Name: name}, Phase: phase, Stream: objectcache.StreamNamed, Owners: owners,
		Synced: true, Exists: true, UID: types.UID("uid-of-" + name), ResourceVersion: "7", LastContact: time.Now(),
	}
	if phase == objectcache.PhaseFailing {
		status.Failures, status.LastError, status.LastErrorTime = 3, errors.New("cannot read "+name), time.Now()
	}
	return status
}

// newHandler returns a handler that must be valid.
func newHandler(t testing.TB, options debug.Options) *debug.Handler {
	t.Helper()
	handler, err := debug.NewHandler(options)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// secrets returns a handler of one source, "secrets".
func secrets(t testing.TB, statuses ...objectcache.Status) *debug.Handler {
	return newHandler(t, debug.Options{Sources: map[string]debug.Source{"secrets": source(statuses)}})
}

// get sends a GET request with a query to a handler.
func get(handler http.Handler, query string) *httptest.ResponseRecorder {
	return send(handler, http.MethodGet, query, "")
}

func send(handler http.Handler, method, query, accept string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "/debug/refwatch"+query, nil)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

// report returns the JSON for a query.
func report(t testing.TB, handler http.Handler, query string) debug.Report {
	t.Helper()
	response := send(handler, http.MethodGet, query, "application/json")
	decoder := json.NewDecoder(response.Body)
	decoder.DisallowUnknownFields()
	var report debug.Report
	if err := decoder.Decode(&report); err != nil || response.Code != http.StatusOK {
		t.Fatalf("JSON for %q: got status %d and %v", query, response.Code, err)
	}
	return report
}

// names returns the names of the objects of a report.
func names(report debug.Report) []string {
	names := []string{}
	for _, object := range report.Objects {
		names = append(names, object.Name)
	}
	return names
}

// rig is a manager of Secrets on an API server in memory, and the handler for it. It runs
// in a bubble of testing/synctest.
type rig struct {
	*testing.T
	server  *apiserver.Server
	secrets *manager.Manager[*corev1.Secret]
	handler *debug.Handler
}

// bubble runs a test with a rig.
func bubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, server: apiserver.New(t, apiserver.Options{InMemory: true})}
		connections := &debug.Connections{}
		client, err := manager.ClientFor(connections.Track(r.server.Config()))
		if err != nil {
			t.Fatal(err)
		}
		gate := objectcache.NewGate(objectcache.GateOptions{})
		if r.secrets, err = manager.NewSecrets(client, objectcache.WatchOptions{Gate: gate}); err != nil {
			t.Fatal(err)
		}
		r.handler = newHandler(t, debug.Options{
			Sources:     map[string]debug.Source{"secrets": r.secrets},
			Gates:       map[string]*objectcache.Gate{"cluster": gate},
			Connections: connections,
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.secrets.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: got %v, want nil", err)
			}
		}()
		test(r)
	})
}

// write creates a Secret, or updates it.
func (r *rig) write(name, data string) {
	r.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"label": data}, Annotations: map[string]string{"note": data}},
		Data:       map[string][]byte{"password": []byte(data)},
	}
	client := r.server.Client().CoreV1().Secrets("default")
	_, err := client.Update(r.Context(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(r.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		r.Fatal(err)
	}
}

// reference declares the Secrets that the pod default/web references.
func (r *rig) reference(names ...string) {
	var keys []types.NamespacedName
	for _, name := range names {
		keys = append(keys, types.NamespacedName{Namespace: "default", Name: name})
	}
	r.secrets.SetReferences(manager.Owner{Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"}, keys...)
	r.settle()
}

// settle waits until all that needs no more than a second has happened.
func (r *rig) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// object returns the JSON of the only object.
func (r *rig) object() debug.Object {
	r.Helper()
	objects := report(r, r.handler, "").Objects
	if len(objects) != 1 {
		r.Fatalf("objects: got %d, want 1", len(objects))
	}
	return objects[0]
}
