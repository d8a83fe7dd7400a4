// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The code of docs/adopting/nginx-gateway-fabric.md.

// syncSecrets makes held equal to the Secrets that a graph names. Unavailable gets the reason of each that cannot be
// read. It reports whether the graph must be built again.
func syncSecrets(
	named []types.NamespacedName, get func(types.NamespacedName) (*corev1.Secret, error),
	held map[types.NamespacedName]*corev1.Secret, unavailable map[types.NamespacedName]error,
) (changed bool) {
	for _, key := range named {
		secret, err := get(key)
		switch {
		case err == nil && (held[key] == nil || held[key].ResourceVersion != secret.ResourceVersion):
			held[key], changed = secret, true
		case apierrors.IsNotFound(err):
			changed, err = changed || held[key] != nil, nil // the graph itself reports an absent Secret
			delete(held, key)
		}
		var refusal *apierrors.StatusError
		if errors.As(err, &refusal) {
			err = refusal // a text that does not change with each attempt
		}
		changed = changed || (err == nil) != (unavailable[key] == nil)
		unavailable[key] = err
	}
	maps.DeleteFunc(held, func(key types.NamespacedName, _ *corev1.Secret) bool { return !slices.Contains(named, key) })
	maps.DeleteFunc(unavailable, func(key types.NamespacedName, _ error) bool { return !slices.Contains(named, key) })
	return changed
}

// graphSecrets watches the Secrets that the last graph names.
type graphSecrets struct {
	secrets *manager.Manager[*corev1.Secret]
}

// sync is syncSecrets from memory, once all Secrets are known that a graph names.
func (g graphSecrets) sync(
	ctx context.Context, named []types.NamespacedName,
	held map[types.NamespacedName]*corev1.Secret, unavailable map[types.NamespacedName]error,
) bool {
	g.secrets.SetReferences(manager.Owner{Kind: "Graph", Name: "nginx"}, named...) // ends all other streams
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = g.secrets.WaitForSync(wait) // waits a second for a refused one; TryGet returns why
	return syncSecrets(named, func(key types.NamespacedName) (*corev1.Secret, error) {
		return g.secrets.TryGet(key.Namespace, key.Name)
	}, held, unavailable)
}

// changes sends an event for each change of a Secret that the last graph names, until ctx ends.
func (g graphSecrets) changes(ctx context.Context, upserted func(*corev1.Secret), deleted func(types.NamespacedName)) {
	for change := range g.secrets.Changes(ctx) {
		switch {
		case change.Err == nil:
			upserted(change.Object)
		case apierrors.IsNotFound(change.Err):
			deleted(change.Key)
		}
	}
}

// gatewayRig builds graphs as a gateway does: a graph has a text for each Secret that it names.
type gatewayRig struct {
	*testing.T
	graphSecrets

	server      *apiserver.Server
	events      chan string
	named       []types.NamespacedName
	held        map[types.NamespacedName]*corev1.Secret
	unavailable map[types.NamespacedName]error
	builds      int
}

// newGatewayRig returns a rig with the Secret "tls". The server refuses the Secret "forbidden".
func newGatewayRig(t *testing.T) *gatewayRig {
	r := &gatewayRig{
		T: t, server: apiserver.New(t, apiserver.Options{InMemory: true}), events: make(chan string, 100),
		held: map[types.NamespacedName]*corev1.Secret{}, unavailable: map[types.NamespacedName]error{},
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	_, err := r.server.Client().CoreV1().Namespaces().Create(t.Context(), shop, metav1.CreateOptions{})
	check(t, err)
	r.create("tls", "1")
	r.server.Authorize(func(request apiserver.Request) bool { return request.Name != "forbidden" })
	client, err := manager.ClientFor(r.server.Config())
	check(t, err)
	r.secrets, err = manager.NewSecrets(client, objectcache.WatchOptions{WatchImmutable: true})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.secrets.Run(ctx) }()
	go r.changes(ctx,
		func(secret *corev1.Secret) { r.events <- secret.Name + " " + version(secret) },
		func(key types.NamespacedName) { r.events <- key.Name + " deleted" })
	t.Cleanup(func() {
		stop()
		check(t, <-ended)
	})
	return r
}

func (r *gatewayRig) objects() typedcorev1.SecretInterface {
	return r.server.Client().CoreV1().Secrets("shop")
}

func (r *gatewayRig) create(name, version string) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"version": []byte(version)}}
	_, err := r.objects().Create(r.Context(), secret, metav1.CreateOptions{})
	check(r.T, err)
}

// process returns a graph of which all Secrets are known.
func (r *gatewayRig) process() string {
	for range 10 {
		var graph []string
		for _, key := range r.named {
			text := "does not exist"
			if secret := r.held[key]; secret != nil {
				text = version(secret)
			} else if r.unavailable[key] != nil {
				text = "cannot be read"
			}
			graph = append(graph, key.Name+" "+text)
		}
		if r.builds++; !r.sync(r.Context(), r.named, r.held, r.unavailable) {
			return strings.Join(graph, ", ")
		}
	}
	return "built again without end"
}

// wantGraph names Secrets, and compares the next graph. Its Secrets are all that is held, and the reasons are theirs.
func (r *gatewayRig) wantGraph(want string, names ...string) {
	r.Helper()
	r.named = nil
	for _, name := range names {
		r.named = append(r.named, types.NamespacedName{Namespace: "shop", Name: name})
	}
	if got := r.process(); got != want {
		r.Errorf("graph: got %q, want %q", got, want)
	}
	streams := len(slices.Collect(r.secrets.Statuses()))
	if len(r.held) > len(names) || len(r.unavailable) != len(names) || streams != len(names) {
		r.Errorf("got %d Secrets, %d reasons and %d streams for %v", len(r.held), len(r.unavailable), streams, names)
	}
}

// wantEvents waits for a minute, and compares the events of that time.
func (r *gatewayRig) wantEvents(want ...string) {
	r.Helper()
	time.Sleep(time.Minute)
	var got []string
	for len(r.events) > 0 {
		got = append(got, <-r.events)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		r.Errorf("events: got %q, want %q", got, want)
	}
}

// A graph is not published before its Secrets are known. It then follows them.
func TestGatewayFabricSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGatewayRig(t)
		r.wantGraph("")
		r.wantGraph("tls 1, absent does not exist, forbidden cannot be read", "tls", "absent", "forbidden")
		if r.builds != 3 {
			t.Errorf("builds of two graphs: got %d, want 3, the second one twice", r.builds)
		}
		r.wantEvents("absent deleted", "tls 1")
		r.wantGraph("tls 1", "tls")
		r.wantGraph("forbidden cannot be read", "forbidden")
		r.wantGraph("tls 1", "tls")
		r.wantEvents("tls 1") // named again

		secret, err := r.objects().Get(t.Context(), "tls", metav1.GetOptions{})
		check(t, err)
		secret.Data["version"] = []byte("2")
		_, err = r.objects().Update(t.Context(), secret, metav1.UpdateOptions{})
		check(t, err)
		r.wantEvents("tls 2")
		r.wantGraph("tls 2", "tls")
		check(t, r.objects().Delete(t.Context(), "tls", metav1.DeleteOptions{}))
		r.wantEvents("tls deleted")
		r.wantGraph("tls does not exist", "tls")

		r.wantGraph("forbidden cannot be read", "forbidden")
		r.server.Authorize(func(apiserver.Request) bool { return true })
		r.create("forbidden", "3")
		r.wantEvents("forbidden 3")
		r.wantGraph("forbidden 3", "forbidden")
		r.wantGraph("")
	})
}
