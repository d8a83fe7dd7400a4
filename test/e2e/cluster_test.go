// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestCluster tests all functions of a cluster on one cluster. Each step leaves it running.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	// Without a watch cache, watches read from etcd, and a compaction has an effect at once.
	c := New(t, Options{APIServerArgs: []string{"--watch-cache-sizes=configmaps#0"}})
	for _, step := range []struct {
		name string
		test func(*testing.T, *Cluster)
	}{
		{"version", testVersion},
		{"node", testNode},
		{"user", testUser},
		{"service account", testServiceAccount},
		{"audit", testAudit},
		{"metric", testMetric},
		{"compact", testCompact},
		{"snapshot", testSnapshot},
		{"snapshot while writing", testSnapshotWhileWriting},
		{"kill API server", testKillAPIServer},
		{"kill etcd", testKillEtcd},
		{"pause API server", testPauseAPIServer},
		{"pause etcd", testPauseEtcd},
		{"proxy cut", testProxyCut},
		{"proxy black hole", testProxyBlackHole},
		{"proxy delay and throttle", testProxyDelayAndThrottle},
		{"restart", testRestart},
		{"rotate certificate", testRotateCertificate},
		{"replica", testReplica},
	} {
		t.Run(step.name, func(t *testing.T) { step.test(t, c) })
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("cluster's folder after Stop: got %v, want ErrNotExist", err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second Stop: got error %v, want none", err)
	}
}

// TestDisableWatchList starts a server without WatchList.
func TestDisableWatchList(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	c := New(t, Options{DisableWatchList: true})
	w, err := Client(t, c.Admin()).CoreV1().Secrets("default").Watch(t.Context(), initialEvents())
	if !apierrors.IsInvalid(err) {
		t.Errorf("got watch %v and error %v, want Invalid", w, err)
	}
}

func initialEvents() metav1.ListOptions {
	yes := true
	return metav1.ListOptions{
		SendInitialEvents:    &yes,
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
}

// If a server does not start, the error has its output, and no file is left.
func TestStartFails(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	t.Setenv("TMPDIR", t.TempDir())
	c, err := Start(t.Context(), Options{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil {
		_ = c.Stop()
		t.Fatal("got a cluster, want an error")
	}
	for _, want := range []string{"kube-apiserver", "ended before it was ready", "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %q, want it to contain %q", err, want)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("got %v and %v left in the temporary folder, want nothing", left, err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	options := Options{Log: io.Discard}
	if _, err := Build(ctx, options.log()); err != nil {
		t.Fatal(err)
	}
	cancel()
	c, err := Start(ctx, options)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got cluster %v and error %v, want %v", c, err, context.Canceled)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("got %v and %v left in the temporary folder, want nothing", left, err)
	}
}

func testVersion(t *testing.T, c *Cluster) {
	version, err := Client(t, c.Admin()).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	want, err := selectedVersion()
	if err != nil {
		t.Fatal(err)
	}
	want = cmp.Or(want, "v1.36.3")
	if version.GitVersion != want || !strings.HasPrefix(want, "v"+version.Major+"."+version.Minor+".") {
		t.Errorf("got version %v, want %s", version, want)
	}
	w, err := Client(t, c.Admin()).CoreV1().Namespaces().Watch(t.Context(), initialEvents())
	if err != nil {
		t.Fatalf("WatchList: got error %v, want it on by default", err)
	}
	w.Stop()
}

// A watch at a version before the compaction expires. A watch at a later version does not.
func testCompact(t *testing.T, c *Cluster) {
	maps := Client(t, c.Admin()).CoreV1().ConfigMaps("default")
	old := put(t, c, "compacted", "1").ResourceVersion
	put(t, c, "compacted", "2")
	at := func(version string) watch.Interface {
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version, FieldSelector: "metadata.name=compacted"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	wantEvent(t, at(old), watch.Modified, "compacted")

	put(t, c, "compacted", "3")
	for range 2 { // the second call does nothing
		if err := c.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	event := receive(t, at(old).ResultChan())
	if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Errorf("watch at %s: got %s %v, want an error: expired", old, event.Type, err)
	}
	last := at(put(t, c, "compacted", "4").ResourceVersion)
	put(t, c, "compacted", "5")
	wantEvent(t, last, watch.Modified, "compacted")
}
