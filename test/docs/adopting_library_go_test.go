// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The code of docs/adopting/library-go.md: the secret monitor of openshift/library-go on
// one store, for use as pkg/secret/secret_monitor.go there.

// storeMonitor has a registration for each handler, and references its Secret.
type storeMonitor struct {
	store *objectcache.WatchStore[*corev1.Secret]

	mu            sync.Mutex
	added         int
	registrations map[types.UID]*storeRegistration
}

// newStoreMonitor returns a monitor that runs until ctx ends.
func newStoreMonitor(ctx context.Context, client kubernetes.Interface) (*storeMonitor, error) {
	store, err := objectcache.NewWatchStore(resource.Secrets(client), objectcache.WatchOptions{
		WatchImmutable: true, // a handler learns at once that such a Secret was created again
	})
	if err != nil {
		return nil, err
	}
	m := &storeMonitor{store: store, registrations: map[types.UID]*storeRegistration{}}
	go func() { _ = store.Run(ctx) }() // nil: it runs once
	go m.deliver(ctx)
	return m, nil
}

// AddSecretEventHandler references the Secret. It does not wait for the network.
func (m *storeMonitor) AddSecretEventHandler(
	ctx context.Context, namespace, name string, handler toolscache.ResourceEventHandler,
) (*storeRegistration, error) {
	if handler == nil {
		return nil, errors.New("no handler")
	}
	r := &storeRegistration{key: types.NamespacedName{Namespace: namespace, Name: name}, handler: handler, synced: make(chan struct{})}
	m.mu.Lock()
	m.added++
	r.owner = types.UID(strconv.Itoa(m.added))
	m.registrations[r.owner] = r
	m.store.AddReference(namespace, name, r.owner)
	r.forget = context.AfterFunc(ctx, func() { _ = m.RemoveSecretEventHandler(r) })
	m.mu.Unlock()
	return r, nil
}

// RemoveSecretEventHandler ends the watch if this was the last handler of the Secret.
func (m *storeMonitor) RemoveSecretEventHandler(r *storeRegistration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r == nil || m.registrations[r.owner] != r {
		return errors.New("not registered")
	}
	delete(m.registrations, r.owner)
	r.forget() // ctx would keep r
	m.store.DeleteReference(r.key.Namespace, r.key.Name, r.owner)
	return nil
}

// GetSecret waits for the first state of the Secret. The other methods do not.
func (m *storeMonitor) GetSecret(ctx context.Context, r *storeRegistration) (*corev1.Secret, error) {
	if r == nil {
		return nil, errors.New("not registered")
	}
	return m.store.Get(ctx, r.key.Namespace, r.key.Name)
}

// deliver calls the handlers of each Secret that changes, until ctx ends.
func (m *storeMonitor) deliver(ctx context.Context) {
	for change, owners := range m.store.Changes(ctx) {
		for _, owner := range owners {
			m.mu.Lock()
			r := m.registrations[owner]
			m.mu.Unlock()
			if r != nil {
				r.deliver(change) // without the lock, so a handler may call the monitor
			}
		}
	}
}

// storeRegistration is a handler of one Secret. Only deliver changes it.
type storeRegistration struct {
	owner   types.UID
	key     types.NamespacedName
	handler toolscache.ResourceEventHandler
	last    *corev1.Secret // the handler has it
	synced  chan struct{}  // closed once the handler has the first state
	forget  func() bool    // the context of the registration
}

func (r *storeRegistration) deliver(change objectcache.Change[*corev1.Secret]) {
	last, secret := r.last, change.Object
	if change.Err != nil && !apierrors.IsNotFound(change.Err) {
		return // refused: GetSecret returns why
	}
	if last != nil && (secret == nil || secret.UID != last.UID) {
		r.handler.OnDelete(last)
		last = nil
	}
	switch {
	case secret != nil && last == nil:
		r.handler.OnAdd(secret, !r.HasSynced())
	case secret != nil && secret.ResourceVersion != last.ResourceVersion:
		r.handler.OnUpdate(last, secret)
	}
	if r.last = secret; !r.HasSynced() {
		close(r.synced)
	}
}

// HasSynced, HasSyncedChecker, Name and Done make it a registration of client-go.
func (r *storeRegistration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

func (r *storeRegistration) HasSyncedChecker() toolscache.DoneChecker { return r }
func (r *storeRegistration) Name() string                             { return "secret " + r.key.String() }
func (r *storeRegistration) Done() <-chan struct{}                    { return r.synced }

var _ toolscache.ResourceEventHandlerRegistration = &storeRegistration{}

// A handler gets the states of its Secret in order, also when the Secret is deleted and
// created again. A Secret that is refused delays no other.
func TestLibraryGoMonitor(t *testing.T) {
	server, secret := serveSecret()
	defer server.Close()
	server.Authorize(func(request apiserver.Request) bool { return request.Name != "forbidden" })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	m, err := newStoreMonitor(ctx, server.Client())
	check(t, err)

	events := make(chan string, 10)
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { events <- "add " + version(object) },
		UpdateFunc: func(before, object any) {
			events <- "update " + version(before) + " " + version(object)
		},
		DeleteFunc: func(object any) { events <- "delete " + version(object) },
	}
	want := func(event string) {
		t.Helper()
		select {
		case got := <-events:
			if got != event {
				t.Fatalf("event: got %q, want %q", got, event)
			}
		case <-ctx.Done():
			t.Fatalf("event: got none, want %q", event)
		}
	}
	refused, err1 := m.AddSecretEventHandler(ctx, "shop", "forbidden", handler)
	r, err2 := m.AddSecretEventHandler(ctx, "shop", "tls", handler)
	check(t, errors.Join(err1, err2))
	got, err := m.GetSecret(ctx, r)
	if err != nil || version(got) != "1" {
		t.Fatalf("GetSecret: got %v, %v, want version 1", got, err)
	}
	want("add 1")
	<-r.Done()

	secrets := server.Client().CoreV1().Secrets("shop")
	secret.Data["version"] = []byte("2")
	if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want("update 1 2")
	check(t, secrets.Delete(ctx, "tls", metav1.DeleteOptions{}))
	want("delete 2")
	if _, err := m.GetSecret(ctx, r); !apierrors.IsNotFound(err) {
		t.Errorf("GetSecret of a deleted one: got %v, want NotFound", err)
	}
	secret.ResourceVersion, secret.UID, secret.Data["version"] = "", "", []byte("3")
	if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want("add 3")

	if _, err := m.GetSecret(ctx, refused); !apierrors.IsForbidden(err) {
		t.Errorf("GetSecret without the right: got %v, want Forbidden", err)
	}
	if refused.HasSynced() {
		t.Error("a refused Secret has synced")
	}
	check(t, m.RemoveSecretEventHandler(r))
	if err := m.RemoveSecretEventHandler(r); err == nil {
		t.Error("a second removal: got no error")
	}
	if _, err := m.GetSecret(ctx, r); !errors.Is(err, objectcache.ErrNotRegistered) {
		t.Errorf("GetSecret after the removal: got %v, want ErrNotRegistered", err)
	}
}

func version(object any) string {
	return string(object.(*corev1.Secret).Data["version"])
}
