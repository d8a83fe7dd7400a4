// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A replica serves the same objects. It lags while it is cut off from etcd. Its metrics are counted, and Restore
// includes it.
func testReplica(t *testing.T, c *Cluster) {
	replica, err := c.AddReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	maps := Client(t, replica.At(c.Admin())).CoreV1().ConfigMaps("default")
	agrees := func(want string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			got, err := maps.Get(ctx, "replicated", metav1.GetOptions{})
			if err == nil && got.Data["value"] != want {
				err = errors.New("got " + got.Data["value"] + ", want " + want)
			}
			return err
		})
	}
	put(t, c, "replicated", "first")
	agrees("first")
	snapshot, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	replica.Etcd.BlackHole(true)
	put(t, c, "replicated", "second")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // it does not answer
	defer cancel()
	if err := apiServerReady(ctx, replica.At(c.Admin())); err == nil {
		t.Error("cut off from etcd: the replica is ready, want an error")
	}
	replica.Etcd.BlackHole(false)
	replica.Etcd.Cut()
	agrees("second")

	before, err := c.OpenWatches(t.Context(), "configmaps") // the servers' own
	if err != nil {
		t.Fatal(err)
	}
	config := replica.At(c.Admin())
	config.Host = "https://" + replica.Proxy.Addr()
	watch, err := Client(t, config).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := replica.Proxy.Connections(); got == 0 {
		t.Error("got no connection through the proxy, want one")
	}
	eventually(t, func(ctx context.Context) error {
		if got, err := c.OpenWatches(ctx, "configmaps"); err != nil || got != before+1 {
			return errors.Join(err, fmt.Errorf("got %d open watches, want %d: one more, at the replica", got, before+1))
		}
		return nil
	})
	watch.Stop()
	if err := c.Restore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	agrees("first")
}

// The server uses a new certificate without a restart.
func testRotateCertificate(t *testing.T, c *Cluster) {
	serial := func() string {
		config, err := rest.TLSConfigFor(c.Admin())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", c.port.addr, config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	if err := c.RotateCertificate(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		if serial() == before {
			return errors.New("the server has the old certificate")
		}
		return nil
	})
}

// Further arguments are the last ones, apply from the next start on, and can be removed.
func TestProcessSetArgs(t *testing.T) {
	p := shell(t, "touch ready; "+idle)
	ps := func() string { return strings.Join(p.allArgs(), " ") }
	before := ps()
	p.SetArgs("--further")
	if got, want := ps(), before+" --further"; got != want {
		t.Errorf("got arguments %q, want %q", got, want)
	}
	p.SetArgs()
	if got := ps(); got != before {
		t.Errorf("got arguments %q, want %q", got, before)
	}
}
