// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// secrets is how many Secrets the manager references.
const secrets = 500

// A manager behind a front end gets all changes: before a reload, after it, and after a reload that cuts all streams.
func TestManager(t *testing.T) {
	t.Parallel()
	for _, front := range frontEnds {
		for _, c := range []client{refwatch, netHTTP} {
			for _, cuts := range []bool{false, true} {
				t.Run(testName(front.name, c.name, fmt.Sprintf("cuts=%v", cuts)), func(t *testing.T) {
					options := frontEndOptions{tls: true}
					if cuts {
						options.global = map[string]string{
							"nginx": "worker_shutdown_timeout 1s;", "HAProxy": "hard-stop-after 1s",
						}[front.name]
					}
					a := newAgent(t, c, front, options)
					a.rotate()
					for range 2 {
						a.proxy.reload()
						if cuts {
							a.proxy.waitForOld()
						}
						a.rotate()
					}
					what := map[bool]string{false: "two reloads", true: "two reloads that cut all streams after 1 s"}[cuts]
					results.add(front.name, fmt.Sprintf("a manager of %d Secrets, %s", secrets, what), c, "all fresh after each")
				})
			}
		}
	}
}

// agent is a program with a manager, an API server, and a front end between them.
type agent struct {
	*testing.T
	server  *apiserver.Server
	proxy   *running
	secrets *manager.Manager[*corev1.Secret]

	mu       sync.Mutex
	versions map[string]string // of the Secrets, by name, as the manager has reported them
	changed  chan struct{}     // closed at the next change of versions
}

// newAgent returns an agent whose manager has synced.
func newAgent(t *testing.T, c client, front frontEnd, options frontEndOptions) *agent {
	t.Helper()
	a := &agent{T: t, server: apiserver.New(t, apiserver.Options{}), versions: map[string]string{}, changed: make(chan struct{})}
	options.backend = strings.TrimPrefix(a.server.URL(), "https://")
	a.proxy = front.start(t, options)
	config, _ := configFor(t, a.proxy.address)
	config.BearerToken = a.server.Config().BearerToken
	var err error
	if !c.own {
		if config, err = clients.NetHTTP(config); err != nil {
			t.Fatal(err)
		}
	}
	client, err := manager.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	a.secrets, err = manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.create()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = a.secrets.Run(ctx) })
	running.Go(func() { a.collect(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	keys := make([]types.NamespacedName, secrets)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: "default", Name: secretName(i)}
	}
	a.secrets.SetReferences(manager.Owner{Kind: "Pod", Namespace: "default", Name: "all", UID: "all"}, keys...)
	wait, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := a.secrets.WaitForSync(wait, keys...); err != nil {
		t.Fatal(err)
	}
	return a
}

func secretName(i int) string { return fmt.Sprintf("secret-%d", i) }

func (a *agent) create() {
	a.Helper()
	client := a.server.Client().CoreV1().Secrets("default")
	for i := range secrets {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName(i)}}
		if _, err := client.Create(a.Context(), secret, metav1.CreateOptions{}); err != nil {
			a.Fatal(err)
		}
	}
}

// collect keeps the versions that the manager reports.
func (a *agent) collect(ctx context.Context) {
	for change := range a.secrets.Changes(ctx) {
		if change.Err != nil {
			continue
		}
		a.mu.Lock()
		a.versions[change.Key.Name] = change.Object.ResourceVersion
		close(a.changed)
		a.changed = make(chan struct{})
		a.mu.Unlock()
	}
}

// rotate updates all Secrets, and waits until the manager has reported the new versions.
func (a *agent) rotate() {
	a.Helper()
	client := a.server.Client().CoreV1().Secrets("default")
	want := map[string]string{}
	for i := range secrets {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: secretName(i)},
			StringData: map[string]string{"time": time.Now().String()},
		}
		secret, err := client.Update(a.Context(), secret, metav1.UpdateOptions{})
		if err != nil {
			a.Fatal(err)
		}
		want[secret.Name] = secret.ResourceVersion
	}
	written := time.Now()
	timeout := time.After(patience)
	for {
		a.mu.Lock()
		fresh, changed := maps.Equal(a.versions, want), a.changed
		a.mu.Unlock()
		if fresh {
			a.Logf("all fresh %v after the last update", time.Since(written))
			return
		}
		select {
		case <-changed:
		case <-timeout:
			a.Fatalf("the manager has not reported all new versions in %v", patience)
		}
	}
}
