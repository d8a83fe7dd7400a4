// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func read(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
	return err
}

// The server is gone at once, connections are refused, and a restart has it back where it was, with all it knew.
func testKillAPIServer(t *testing.T, c *Cluster) {
	client := clientFor(t, c.Admin())
	put(t, c, "killed", "1")
	w := follow(t, client, "killed")
	c.APIServer.Kill()
	c.APIServer.Kill() // it need not run
	ended(t, w)
	if err := read(t.Context(), client, "killed"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want %v", err, syscall.ECONNREFUSED)
	}
	if err := c.APIServer.Pause(); !errors.Is(err, errNotRunning) {
		t.Errorf("pausing it: got %v, want %v", err, errNotRunning)
	}
	if err := c.APIServer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := read(t.Context(), client, "killed"); err != nil {
		t.Errorf("after the restart: got %v, want none", err)
	}
}

// Without etcd the server lives, and cannot write. A watch survives.
func testKillEtcd(t *testing.T, c *Cluster) {
	put(t, c, "without-etcd", "1")
	c.Etcd.Kill()
	maps := clientFor(t, c.Admin()).CoreV1().ConfigMaps("default")
	if err := maps.Delete(within(t), "without-etcd", metav1.DeleteOptions{}); err == nil {
		t.Error("got no error, want one")
	}
	if err := c.Compact(within(t)); err == nil {
		t.Error("compaction: got no error, want one")
	}
	if err := c.Etcd.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := maps.Get(ctx, "without-etcd", metav1.GetOptions{})
		return err
	})
}

// A paused server accepts connections, by the kernel's hand, and answers nobody. Its watches go on afterwards.
func testPauseAPIServer(t *testing.T, c *Cluster) {
	client := clientFor(t, c.Admin())
	put(t, c, "paused", "1")
	w := follow(t, client, "paused")
	for range 2 { // pausing twice is pausing once
		if err := c.APIServer.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	if err := read(within(t), client, "paused"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	if err := c.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	put(t, c, "paused", "2")
	wantEvent(t, w, watch.Modified, "paused")
}

func testPauseEtcd(t *testing.T, c *Cluster) {
	client := clientFor(t, c.Admin())
	if err := c.Etcd.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := read(within(t), client, "paused"); err == nil {
		t.Error("got an answer without etcd, want none")
	}
	if err := c.Etcd.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { return read(ctx, client, "paused") })
}

// A restart in order, of a paused server too, ends watches and keeps the address.
func testRestart(t *testing.T, c *Cluster) {
	client := clientFor(t, c.Admin())
	put(t, c, "restarted", "1")
	w := follow(t, client, "restarted")
	first := c.APIServer.current()
	if err := c.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := c.APIServer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(t, w)
	if !strings.Contains(first.state, "exit status 0") {
		t.Errorf("got its end as %q, want exit status 0", first.state)
	}
	if err := read(t.Context(), client, "restarted"); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

// throughProxy returns a client with connections of its own.
func throughProxy(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	t.Cleanup(c.Proxy.Cut)
	return clientFor(t, c.ThroughProxy(c.User("proxied", mastersGroup)))
}

// A cut ends open watches, and the next request comes through.
func testProxyCut(t *testing.T, c *Cluster) {
	client := throughProxy(t, c)
	put(t, c, "cut", "1")
	w := follow(t, client, "cut")
	c.Proxy.Cut()
	ended(t, w)
	if err := read(t.Context(), client, "cut"); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

// In the black hole a watch stays open and hears nothing, even when the server dies; new connections hang. A new
// one works once it is off, the old one never again.
func testProxyBlackHole(t *testing.T, c *Cluster) {
	client := throughProxy(t, c)
	put(t, c, "lost", "1")
	w := follow(t, client, "lost")
	c.Proxy.BlackHole(true)
	put(t, c, "lost", "2")
	fresh := throughProxy(t, c)
	for name, client := range map[string]kubernetes.Interface{"its connection": client, "a new connection": fresh} {
		if err := read(within(t), client, "lost"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want %v", name, err, context.DeadlineExceeded)
		}
	}
	c.Proxy.Reset()
	put(t, c, "lost", "3")
	eventually(t, func(ctx context.Context) error {
		return read(ctx, throughProxy(t, c), "lost")
	})
	select {
	case event, open := <-w.ResultChan():
		t.Errorf("got event %v, open %v, want silence", event, open)
	default:
	}
}

// A delay holds answers back for as long as it is set, and so does a trickle.
func testProxyDelayAndThrottle(t *testing.T, c *Cluster) {
	put(t, c, "slow", strings.Repeat("x", 64<<10))
	for name, slow := range map[string]func(){
		"delay":    func() { c.Proxy.Delay(1 << 40) },
		"throttle": func() { c.Proxy.Throttle(10) },
	} {
		client := throughProxy(t, c)
		if err := read(t.Context(), client, "slow"); err != nil {
			t.Fatalf("%s: before: got %v, want none", name, err)
		}
		slow()
		if err := read(within(t), client, "slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want %v", name, err, context.DeadlineExceeded)
		}
		c.Proxy.Reset()
		if err := read(t.Context(), client, "slow"); err != nil {
			t.Errorf("%s: after: got %v, want none", name, err)
		}
	}
}

// The configuration that goes through the proxy is a copy.
func TestThroughProxy(t *testing.T) {
	proxy, err := newTCPProxy("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.close()
	c := &Cluster{Proxy: proxy}
	config := &rest.Config{Host: "https://127.0.0.1:1", Username: "jo"}
	got := c.ThroughProxy(config)
	if want := fmt.Sprintf("https://%s", proxy.Addr()); got.Host != want || got.Username != "jo" {
		t.Errorf("got host %s and user %s, want %s and jo", got.Host, got.Username, want)
	}
	if config.Host != "https://127.0.0.1:1" {
		t.Errorf("got host %s in the original, want it unchanged", config.Host)
	}
}
