// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// streamsPerConnection is the limit of the server of a parkedRig.
const streamsPerConnection = 5

// parkedRig is a store that parks its streams, with a network between it and the server.
type parkedRig struct {
	*rig

	network   *network.Network
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
		r := &parkedRig{rig: &rig{t: t, server: apiserver.New(t, server)}}
		r.client = r.server.Client()
		config := r.server.Config()
		r.network = network.New(config.Dial)
		config.Dial = r.network.Dial
		config = resource.ConfigFor(config)
		if change != nil {
			change(r, config)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		r.Store = newStore(t, resource.Secrets(client).WithTransform(r.transform), objectcache.WatchOptions{})
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
	if got := r.network.Counts().Open; got != 0 {
		r.t.Errorf("91 s after %s: got %d connections, want none", when, got)
	}
}

// cut resets all connections.
func (r *parkedRig) cut() { r.network.Each((*network.Conn).Reset) }

// connections returns how many have been made.
func (r *parkedRig) connections() int {
	counts := r.network.Counts()
	return counts.Dials - counts.Failed
}

// readers returns how many streams have a goroutine of the store that reads them.
func readers() int {
	synctest.Wait()
	stacks := make([]byte, 8<<20)
	stacks = stacks[:goruntime.Stack(stacks, true)]
	return strings.Count(string(stacks), "reflector.(*session).runStream(")
}
