// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// One value of NewCache serves many clusters, which come and go, as those of multicluster-runtime do: each has a cache
// and a Gate of its own, a cluster whose server is away delays no other, and nothing is left of one that has ended.
func TestClustersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newCache := controllerruntime.NewCache(controllerruntime.CacheOptions{}) // no Gate: each cluster has its own
		option := func(options *cluster.Options) {
			options.NewCache, options.NewClient = newCache, controllerruntime.NewClient
		}
		join := func(value string) (server *apiserver.Server, joined cluster.Cluster, leave func()) {
			t.Helper()
			server = apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
			secret := secretNamed("one", value)
			if _, err := server.Client().CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			joined, err := cluster.New(server.Config(), option)
			if err != nil {
				t.Fatal(err)
			}
			return server, joined, start(t, joined)
		}
		value := func(c cluster.Cluster) string {
			r := &rig{t: t}
			return r.value(c.GetClient(), "one")
		}
		_, first, leaveFirst := join("1")
		secondServer, second, leaveSecond := join("2")
		for c, want := range map[cluster.Cluster]string{first: "1", second: "2"} {
			if got := value(c); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		secondServer.Close()
		if got := value(second); got != "2" {
			t.Errorf("from memory, with the server away: got %q, want 2", got)
		}
		for n := range 3 { // others come and go meanwhile
			server, third, leave := join("3")
			if got := value(third); got != "3" {
				t.Errorf("cluster %d beside one that is away: got %q, want 3", n, got)
			}
			leave()
			synctest.Wait()
			if streams := server.TotalStreams(); streams > 0 {
				t.Errorf("cluster %d after it has left: got %d streams, want none", n, streams)
			}
			server.Close()
		}
		if got := value(first); got != "1" {
			t.Errorf("the first one in the end: got %q, want 1", got)
		}
		leaveFirst()
		leaveSecond()
	})
}
