// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/soak"
)

// controlPlane is a control plane with two API servers.
type controlPlane struct {
	*testing.T

	cluster   *e2e.Cluster
	replica   *e2e.Replica
	admin     kubernetes.Interface // at the first server
	onReplica kubernetes.Interface
	token     string // the file with the token of the managers
	answers   answers
}

func newControlPlane(t *testing.T) *controlPlane {
	// The audit log would take gigabytes.
	p := &controlPlane{T: t, cluster: e2e.New(t, e2e.Options{APIServerArgs: []string{"--audit-policy-file=", "--audit-log-path="}})}
	var err error
	p.replica, err = p.cluster.AddReplica(t.Context())
	p.check(err)
	p.admin = e2e.Client(t, p.cluster.Admin())
	p.onReplica = e2e.Client(t, p.replica.At(p.cluster.Admin()))
	p.token = filepath.Join(t.TempDir(), "token")
	p.check(p.createNamespace(t.Context()), p.grant(t.Context()), p.issueToken(t.Context()))
	return p
}

// check ends the test if there is an error.
func (p *controlPlane) check(errs ...error) {
	p.Helper()
	if err := errors.Join(errs...); err != nil {
		p.Fatal(err)
	}
}

// server returns the control plane for a run. The objects are written directly. The managers connect through the
// proxies, each time through a random one, also if its server is dead.
func (p *controlPlane) server() soak.Server {
	direct := p.cluster.Admin()
	client := rest.AnonymousClientConfig(direct)
	client.BearerTokenFile, client.QPS = p.token, -1
	servers := []string{address(direct.Host), address(p.replica.At(direct).Host)}
	direct.Dial = func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		for _, server := range servers {
			if conn, err = new(net.Dialer).DialContext(ctx, network, server); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
	client.Wrap(p.answers.wrap)
	proxies := []*e2e.Proxy{p.cluster.Proxy, p.replica.Proxy}
	client.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, proxies[rand.IntN(len(proxies))].Addr())
	}
	return soak.Server{
		Config:    direct,
		Client:    client,
		Namespace: namespace,
		Streams: func(ctx context.Context) (sum int, err error) {
			for _, resource := range []string{"secrets", "configmaps"} {
				open, err := p.cluster.OpenWatches(ctx, resource)
				if err != nil {
					return 0, err
				}
				sum += open
			}
			return sum, nil
		},
		Goroutines: []goleak.Option{
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"), // a connection of OpenWatches
			goleak.IgnoreAnyFunction("github.com/refwatch/refwatch/test/e2e.(*Process).wait"),
			goleak.IgnoreAnyFunction("github.com/refwatch/refwatch/test/e2e.(*Proxy).serve"), // of the replica to etcd
			goleak.IgnoreAnyFunction("github.com/refwatch/refwatch/test/e2e.(*Proxy).serve.func1"),
		},
	}
}

func address(host string) string { return strings.TrimPrefix(host, "https://") }

// cycles returns the faults of some rounds. After the last fault of a round the load goes on without one.
func (p *controlPlane) cycles(rounds int, faults []class) (cycles []soak.Cycle) {
	for round := range rounds {
		for _, c := range faults {
			if round%c.every != 0 {
				continue
			}
			cycles = append(cycles, soak.Cycle{
				Name: c.name, WarmUp: time.Second, Within: cmp.Or(c.within, freshWithin), Dials: c.dials,
				Fault: func(ctx context.Context, load *soak.Load) error { return c.inject(p, ctx, load) },
			})
		}
		if len(cycles) > 0 {
			cycles[len(cycles)-1].Calm = true
		}
	}
	return cycles
}

// selected returns the faults whose names contain a text, without the long ones if short is set. It returns an error if
// there are none.
func selected(only string, short bool) (faults []class, err error) {
	names := &strings.Builder{}
	for _, c := range classes {
		if short && c.long {
			continue
		}
		fmt.Fprintf(names, "\n\t%s", c.name)
		if strings.Contains(c.name, only) {
			faults = append(faults, c)
		}
	}
	if len(faults) == 0 {
		return nil, fmt.Errorf("no fault has a name that contains %q: set -chaos.only to a part of one of these "+
			"(-short leaves out the long faults):%s", only, names)
	}
	return faults, nil
}

// hold waits. It returns early if ctx ends.
func hold(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
