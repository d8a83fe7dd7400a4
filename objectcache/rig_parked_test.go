// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"net"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// streamsPerConnection is the limit of the server of a parkedRig.
const streamsPerConnection = 5

// parkedRig is a store that parks its streams, with a network between it and the server.
type parkedRig struct {
	*rig

	network   *network
	names     []string // of the Secrets
	transform func(*corev1.Secret) *corev1.Secret
}

// inParkedBubble runs f in a bubble, with a running store of n Secrets that no owner
// references. change changes the config of its client and sets what else the rig needs; it
// may be nil.
func inParkedBubble(t *testing.T, n int, server apiserver.Options, change func(*parkedRig, *rest.Config), f func(*testing.T, *parkedRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server.InMemory, server.TLS, server.MaxStreamsPerConnection = true, true, streamsPerConnection
		r := &parkedRig{rig: &rig{t: t, server: apiserver.New(t, server)}, network: &network{open: map[*wire]bool{}}}
		r.client = r.server.Client()
		config := r.server.Config()
		r.network.dial, config.Dial = config.Dial, r.network.Dial
		config = objectcache.ConfigFor(config)
		if change != nil {
			change(r, config)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		r.Store = newStore(t, objectcache.Secrets(client).WithTransform(r.transform), objectcache.WatchOptions{})
		for i := range n {
			r.names = append(r.names, fmt.Sprint("tls-", i))
			r.create(r.names[i])
		}
		r.run()
		f(t, r)
		r.stop()
	})
}

// reference adds a reference to each Secret, and waits until all have synced.
func (r *parkedRig) reference() {
	r.t.Helper()
	for _, name := range r.names {
		r.AddReference(namespace, name, "pod")
	}
	r.wantAll("when referenced", canary, time.Minute)
}

// updateAll gives each Secret a value.
func (r *parkedRig) updateAll(value string) {
	for _, name := range r.names {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
		if _, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// wantAll checks that all Secrets have a value in memory within a time.
func (r *parkedRig) wantAll(when, value string, limit time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		missing := 0
		for _, name := range r.names {
			if got, err := r.TryGet(namespace, name); err != nil || string(got.Data["password"]) != value {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if !time.Now().Before(end) {
			r.t.Errorf("%s: %d of %d Secrets do not have the value %q within %v", when, missing, len(r.names), value, limit)
			return
		}
	}
}

// wantNothingOpen checks that no stream is open a second from now, and no connection 90 s
// later.
func (r *parkedRig) wantNothingOpen(when string) {
	r.t.Helper()
	time.Sleep(time.Second)
	if got := r.server.TotalStreams(); got != 0 {
		r.t.Errorf("a second after %s: got %d streams, want none", when, got)
	}
	time.Sleep(90 * time.Second)
	if open, _ := r.network.connections(); open != 0 {
		r.t.Errorf("91 s after %s: got %d connections, want none", when, open)
	}
}

// readers returns how many streams have a goroutine of the store that reads them.
func readers() int {
	synctest.Wait()
	stacks := make([]byte, 8<<20)
	stacks = stacks[:goruntime.Stack(stacks, true)]
	return strings.Count(string(stacks), "reflector.(*session).runStream(")
}

// network is what the connections of a client pass.
type network struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	open  map[*wire]bool
	dials int // that have succeeded
	down  bool
}

// wire is a connection of the network.
type wire struct {
	net.Conn
	network *network

	mu   sync.Mutex
	dead bool // it loses everything, and neither side is notified
}

// Dial is that of a rest.Config.
func (n *network) Dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	n.mu.Lock()
	down := n.down
	n.mu.Unlock()
	if down {
		return nil, syscall.ECONNREFUSED
	}
	c, err := n.dial(ctx, protocol, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &wire{Conn: c, network: n}
	n.open[w] = true
	n.dials++
	return w, nil
}

// each calls f for each open connection.
func (n *network) each(f func(*wire)) {
	n.mu.Lock()
	var all []*wire
	for w := range n.open {
		all = append(all, w)
	}
	n.mu.Unlock()
	for _, w := range all {
		f(w)
	}
}

// cut closes all connections. If down is set, no other is made.
func (n *network) cut(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	n.each(func(w *wire) { _ = w.Close() })
}

// freeze makes all connections half-open.
func (n *network) freeze() {
	n.each(func(w *wire) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dead = true
	})
}

// connections returns how many are open, and how many there were.
func (n *network) connections() (open, dials int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open), n.dials
}

func (w *wire) isDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (n int, err error) {
	for n, err = w.Conn.Read(p); err == nil && w.isDead(); {
		n, err = w.Conn.Read(p)
	}
	return n, err
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if w.isDead() {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.network.mu.Lock()
	delete(w.network.open, w)
	w.network.mu.Unlock()
	return w.Conn.Close()
}
