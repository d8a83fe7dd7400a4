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

// Kill ends watches and refuses connections. Restart brings the server back at its address, with its objects.
func testKillAPIServer(t *testing.T, c *Cluster) {
	client := Client(t, c.Admin())
	put(t, c, "killed", "1")
	w := startWatch(t, client, "killed")
	c.APIServer.Kill()
	c.APIServer.Kill() // does nothing
	wantWatchEnd(t, w)
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

// Without etcd the server runs but cannot write.
func testKillEtcd(t *testing.T, c *Cluster) {
	put(t, c, "without-etcd", "1")
	c.Etcd.Kill()
	maps := Client(t, c.Admin()).CoreV1().ConfigMaps("default")
	if err := maps.Delete(shortContext(t), "without-etcd", metav1.DeleteOptions{}); err == nil {
		t.Error("got no error, want one")
	}
	if err := c.Compact(shortContext(t)); err == nil {
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

// A paused server does not answer; the kernel still accepts connections. Its watches continue after Resume.
func testPauseAPIServer(t *testing.T, c *Cluster) {
	client := Client(t, c.Admin())
	put(t, c, "paused", "1")
	w := startWatch(t, client, "paused")
	for range 2 { // the second call does nothing
		if err := c.APIServer.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	if err := read(shortContext(t), client, "paused"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	if err := c.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	put(t, c, "paused", "2")
	wantEvent(t, w, watch.Modified, "paused")
}

func testPauseEtcd(t *testing.T, c *Cluster) {
	client := Client(t, c.Admin())
	if err := c.Etcd.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := read(shortContext(t), client, "paused"); err == nil {
		t.Error("got an answer without etcd, want none")
	}
	if err := c.Etcd.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { return read(ctx, client, "paused") })
}

// A graceful restart ends watches and keeps the address, also if the server is paused.
func testRestart(t *testing.T, c *Cluster) {
	client := Client(t, c.Admin())
	put(t, c, "restarted", "1")
	w := startWatch(t, client, "restarted")
	first := c.APIServer.current()
	if err := c.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := c.APIServer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantWatchEnd(t, w)
	if !strings.Contains(first.state, "exit status 0") {
		t.Errorf("got exit state %q, want exit status 0", first.state)
	}
	if err := read(t.Context(), client, "restarted"); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

// throughProxy returns a client with its own connections.
func throughProxy(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	t.Cleanup(c.Proxy.Cut)
	return Client(t, c.ThroughProxy(c.User("proxied", mastersGroup)))
}

// Cut ends open watches, and the next request succeeds.
func testProxyCut(t *testing.T, c *Cluster) {
	client := throughProxy(t, c)
	put(t, c, "cut", "1")
	w := startWatch(t, client, "cut")
	c.Proxy.Cut()
	wantWatchEnd(t, w)
	if err := read(t.Context(), client, "cut"); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

// In a black hole a watch stays open without events, and requests hang, also on new connections. Afterwards a new
// connection works, and an old one does not.
func testProxyBlackHole(t *testing.T, c *Cluster) {
	client := throughProxy(t, c)
	put(t, c, "lost", "1")
	w := startWatch(t, client, "lost")
	c.Proxy.BlackHole(true)
	put(t, c, "lost", "2")
	for name, client := range map[string]kubernetes.Interface{"old connection": client, "new connection": throughProxy(t, c)} {
		if err := read(shortContext(t), client, "lost"); !errors.Is(err, context.DeadlineExceeded) {
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
		t.Errorf("got event %v, open %v, want no event", event, open)
	default:
	}
}

// Delay and Throttle delay answers until Reset.
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
		if err := read(shortContext(t), client, "slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want %v", name, err, context.DeadlineExceeded)
		}
		c.Proxy.Reset()
		if err := read(t.Context(), client, "slow"); err != nil {
			t.Errorf("%s: after: got %v, want none", name, err)
		}
	}
}

// ThroughProxy returns a copy of the configuration.
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
