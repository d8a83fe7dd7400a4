// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/network"
)

// newObjects is how many objects are created and referenced during a fault, one after the other.
const newObjects = 20

// balanced is a rig whose dials get to two API servers in turn.
type balanced struct {
	*rig

	replica *e2e.Replica
	names   []string
}

// newBalanced references 1,000 Secrets, and then 900 of them, so that every connection has room.
func newBalanced(t *testing.T, cluster *e2e.Cluster, replica *e2e.Replica, namespace string) *balanced {
	t.Helper()
	b := &balanced{rig: newRig(t, cluster, namespace, inTurn(cluster, replica), objectcache.WatchOptions{}), replica: replica}
	b.names = b.makeRoom(b.create(many + many/10))
	return b
}

// inTurn returns an administrator's config whose dials get to the two API servers in turn, first to the replica.
func inTurn(cluster *e2e.Cluster, replica *e2e.Replica) *rest.Config {
	to := func(proxy *e2e.Proxy) network.Dial {
		return func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, proxy.Addr())
		}
	}
	config := cluster.Admin()
	config.Dial = network.New(to(replica.Proxy), to(cluster.Proxy)).Dial
	return config
}

// makeRoom removes the references to every eleventh object, and returns the other names.
func (r *rig) makeRoom(names []string) (left []string) {
	r.Helper()
	for i, name := range names {
		if i%11 == 0 {
			r.store.DeleteReference(r.namespace, name, owner)
		} else {
			left = append(left, name)
		}
	}
	r.eventually(func() error { return streams(r.Context(), r.cluster, len(left)) })
	return left
}

// addOneByOne references new objects, and records how long the slowest Get takes.
func (r *rig) addOneByOne(fault, prefix string) {
	r.Helper()
	r.requests.reset()
	slowest, late := time.Duration(0), 0
	for i := range newObjects {
		name := fmt.Sprintf("%s-%d", prefix, i)
		r.put(name, "first")
		r.reference(name)
		took := r.served(name)
		if slowest = max(slowest, took); took > time.Second {
			late++
		}
	}
	r.observe(fault, "new objects that a Get waits for", fmt.Sprintf("the slowest of %d, %d took more than a second, %d dials",
		newObjects, late, r.requests.dialed.Load()), slowest)
}

// One of two API servers behind a load balancer fails, while connections to it have free slots.
func TestTwoAPIServers(t *testing.T) {
	t.Parallel()
	cluster := e2e.New(t, e2e.Options{})
	replica, err := cluster.AddReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("stopped", func(t *testing.T) {
		const fault = "one of two API servers stopped (SIGSTOP)"
		b := newBalanced(t, cluster, replica, "stopped")
		want := b.onServer()
		if err := replica.Pause(); err != nil {
			t.Fatal(err)
		}
		b.addOneByOne(fault, "stopped")
		if err := b.allAgree(b.names, want); err != nil {
			t.Error(err)
		}
		if err := replica.Resume(); err != nil {
			t.Fatal(err)
		}
		changed := b.change(b.names)
		b.observe(fault, "converges", changed, b.converged(b.names))
	})
	t.Run("cut off from etcd", func(t *testing.T) {
		const fault = "one of two API servers cut off from etcd"
		b := newBalanced(t, cluster, replica, "without-etcd")
		replica.Etcd.BlackHole(true)
		b.addOneByOne(fault, "without-etcd")
		replica.Etcd.BlackHole(false)
		replica.Etcd.Cut()
		changed := b.change(b.names)
		b.observe(fault, "converges", changed, b.converged(b.names))
	})
	t.Run("cuts", func(t *testing.T) {
		const fault, cuts = "one of two API servers cut every 5 s", 6
		b := newBalanced(t, cluster, replica, "cut-replica")
		want := b.onServer()
		b.during(func(ctx context.Context) error {
			for range cuts {
				replica.Proxy.Cut()
				if err := pause(5 * time.Second)(ctx); err != nil {
					return err
				}
			}
			return nil
		}, func() error { return b.allAgree(b.names, want) })
		replica.Proxy.Cut()
		began := time.Now()
		b.update("after the cuts", b.names...)
		b.converged(b.names)
		b.observe(fault, "converges after the last cut", fmt.Sprintf("%d cuts, all changed", cuts+1), time.Since(began))
	})
	t.Run("late etcd", func(t *testing.T) { testLateEtcd(t, cluster, replica) })
}

// One of two API servers behind a load balancer has no HTTP/2. The first dial meets it, and so all watches use
// client-go's transport for a minute. The next dial for a parked stream meets the other one, and new streams are parked
// from then on.
func TestOneAPIServerWithoutHTTP2(t *testing.T) {
	t.Parallel()
	const fault = "one of two API servers without HTTP/2"
	cluster := e2e.New(t, e2e.Options{})
	replica, err := cluster.AddReplica(t.Context(), "--disable-http2-serving")
	if err != nil {
		t.Fatal(err)
	}
	config := inTurn(cluster, replica)
	turns := config.Dial
	var meetsOther atomic.Bool
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if meetsOther.Load() {
			return new(net.Dialer).DialContext(ctx, network, cluster.Proxy.Addr())
		}
		return turns(ctx, network, address)
	}
	r := newRig(t, cluster, "without-http2", config, objectcache.WatchOptions{})
	names := r.prepare(many)
	want := r.onServer()
	began := time.Now()
	r.reference(names...)
	took := r.eventually(func() error { return r.allAgree(names, want) })
	parked := 0
	for status := range r.store.Statuses() {
		if status.Parked {
			parked++
		}
	}
	r.observe(fault, "served", fmt.Sprintf("all, %d of them parked, %d dials", parked, r.requests.dialed.Load()), took)
	meetsOther.Store(true) // else half of the runs would wait for two minutes more
	for i := 0; ; i++ {
		name := fmt.Sprint("new-", i)
		r.put(name, "first")
		r.reference(name)
		r.served(name)
		status, _ := r.store.Status(r.namespace, name)
		if status.Parked {
			break
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatal("no new stream is parked")
		}
		r.during(pause(time.Second), func() error { return nil })
	}
	r.observe(fault, "a new stream is parked", fmt.Sprintf("%d dials", r.requests.dialed.Load()), time.Since(began))
}

// A connection resets all new streams, while the old ones live: https://go.dev/issue/47635.
func TestPoisonedConnection(t *testing.T) {
	t.Parallel()
	cluster := e2e.New(t, e2e.Options{})
	config, err := cluster.ServiceAccount(t.Context(), metav1.NamespaceDefault, "poisoned")
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "poisoned"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "poisoned"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if _, err := e2e.Client(t, cluster.Admin()).RbacV1().ClusterRoleBindings().Create(t.Context(), binding, createOptions); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fault string
		most  int // of the connections
		code  uint32
	}{
		{"a connection resets new streams, PROTOCOL_ERROR", 1, 0x1},
		{"a connection resets new streams, INTERNAL_ERROR", 1, 0x2},
		{"all connections reset new streams, PROTOCOL_ERROR", many, 0x1},
		{"all connections reset new streams, INTERNAL_ERROR", many, 0x2},
	} {
		t.Run(test.fault, func(t *testing.T) {
			p, config := newPoisoner(t, config)
			r := newRig(t, cluster, "poisoned", config, objectcache.WatchOptions{})
			names := r.makeRoom(r.create(many + many/10))
			want := r.onServer()
			links := p.poison(test.most, test.code)
			r.addOneByOne(test.fault, fmt.Sprintf("poisoned-%d-%d", test.most, test.code))
			if err := errors.Join(r.allAgree(names, want), r.watching(names)); err != nil {
				t.Error(err)
			}
			r.observe(test.fault, "the other streams of the connections live", fmt.Sprintf("on %d", links), 0)
		})
	}
}
