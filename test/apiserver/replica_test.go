// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// newReplica returns a server, and a replica of it.
func newReplica(t *testing.T) (f, replica *fixture) {
	t.Helper()
	f = newFixture(t, Options{InMemory: true, TLS: true})
	server, err := f.Replica()
	check(t, err)
	return f, &fixture{Server: server, t: t, client: server.Client()}
}

// A replica has the same objects, and tells its requests apart from those of the other server.
func TestReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, replica := newReplica(t)
		streams := []watch.Interface{f.watchSecrets(watchList()), replica.watchSecrets(watchList())}
		for _, w := range streams {
			expect(t, w, watch.Bookmark)
		}
		first := replica.createSecret(newSecret("a"))
		second := f.updateSecret(first, "2")
		for i, w := range streams {
			for _, want := range []*corev1.Secret{first, second} {
				if got := (<-w.ResultChan()).Object.(*corev1.Secret).ResourceVersion; got != want.ResourceVersion {
					t.Errorf("server %d: got version %s, want %s", i, got, want.ResourceVersion)
				}
			}
		}
		var servers []int
		for _, request := range f.Requests() {
			servers = append(servers, request.Replica)
		}
		if want := []int{0, 1, 1, 0}; len(servers) != len(want) || servers[0] != 0 || servers[1] != 1 || servers[2] != 1 || servers[3] != 0 {
			t.Errorf("got requests to the servers %v, want %v", servers, want)
		}
		if got := replica.CloseStreams(func(r Request) bool { return r.Replica == 1 }); got != 1 {
			t.Errorf("closed %d streams, want that of the replica", got)
		}
		if _, ok := <-streams[1].ResultChan(); ok {
			t.Error("the stream of the replica is open")
		}
		f.Close()
		if _, err := replica.client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Error("the replica outlives the server")
		}
	})
}

// One of two servers lags: its watches are silent and its reads from the watch cache are old.
// Those of the other are not.
func TestReplicaLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, replica := newReplica(t)
		first := f.createSecret(newSecret("a"))
		options := named("a", metav1.ListOptions{ResourceVersion: first.ResourceVersion})
		current, late := f.watchSecrets(options), replica.watchSecrets(options)
		replica.Lag(time.Second)
		second := replica.updateSecret(first, "2")
		expect(t, current, watch.Modified)
		synctest.Wait()
		select {
		case event := <-late.ResultChan():
			t.Errorf("the server that lags sends %v", event)
		default:
		}
		zero := metav1.ListOptions{ResourceVersion: "0"}
		for server, want := range map[*fixture]string{f: second.ResourceVersion, replica: first.ResourceVersion} {
			if got := server.listSecrets(zero).Items[0].ResourceVersion; got != want {
				t.Errorf("server %d: got version %s, want %s", server.number, got, want)
			}
			if got := server.listSecrets(metav1.ListOptions{}).Items[0].ResourceVersion; got != second.ResourceVersion {
				t.Errorf("server %d: got version %s of a consistent read, want %s", server.number, got, second.ResourceVersion)
			}
		}
		f.CatchUp() // it does not lag
		f.updateSecret(second, "3")
		expect(t, current, watch.Modified)
		replica.CatchUp()
		expect(t, late, watch.Modified)
		expect(t, late, watch.Modified)
	})
}
