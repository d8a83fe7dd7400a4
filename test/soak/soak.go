// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/history"
)

// watchOptions are those of both managers. They share a Gate.
func watchOptions(gate *objectcache.Gate) objectcache.WatchOptions {
	return objectcache.WatchOptions{Gate: gate}
}

// Server is the API server of a run. It has no Secrets and ConfigMaps in the namespace default.
type Server struct {
	// Config is that of an administrator.
	Config *rest.Config
	// Streams returns how many watches of Secrets and ConfigMaps are open on the server.
	Streams func(context.Context) (int, error)
	// Crash kills the server and starts it again. It returns when the server is ready. If it is nil, connections are
	// refused for some seconds instead.
	Crash func(context.Context) error
	// Goroutines are those of Streams and Crash, which may be left when the run ends. Default: none.
	Goroutines []goleak.Option
}

// soak is a run.
type soak struct {
	testing.TB
	server  Server
	options Options
	ctx     context.Context // ends with the test
	history history.History
	began   time.Time

	network *network
	secrets kind
	kinds   []kind
	objects []*object
	cohorts []*cohort

	uids     atomic.Int64 // of pods
	replaced atomic.Int64 // changes of cohorts
	writes   atomic.Int64
	crashes  int
	rows     []row
}

// Run runs the managers of Secrets and ConfigMaps against a server for the period, and fails the test if a promise is
// broken: see the package documentation.
func Run(t *testing.T, server Server, options Options) {
	leaked := goleak.IgnoreCurrent()
	s := &soak{
		TB: t, server: server, options: options, ctx: t.Context(), began: time.Now(),
		network: &network{open: map[*connection]struct{}{}},
	}
	closeConnections := s.connect()
	s.makeObjects()
	s.check(s.writeAll(s.ctx, func(*object) bool { return true }))
	streams := s.streams()
	before := heap()

	stop := s.start()
	s.register()
	s.settle("registered")
	for quarter := range 4 {
		s.quarter(quarter)
	}
	for _, c := range s.cohorts {
		c.unregister(s)
	}
	s.awaitStreams(streams)
	stop()
	s.closeAll(closeConnections)
	goleak.VerifyNone(t, append(server.Goroutines, leaked)...)
	s.measure("stopped", 0)
	s.finish(before)
}

// connect makes the clients and managers.
func (s *soak) connect() (closeConnections func()) {
	s.Helper()
	config := rest.CopyConfig(s.server.Config)
	config.Dial = s.network.dial
	reader, err := manager.ClientFor(config)
	s.check(err)
	direct := rest.CopyConfig(s.server.Config)
	direct.QPS = -1
	direct.Dial = (&network{open: map[*connection]struct{}{}}).dial // connections of its own
	writer, err := kubernetes.NewForConfig(direct)
	s.check(err)

	gate := objectcache.NewGate(objectcache.GateOptions{})
	secrets, err := manager.NewSecrets(reader, watchOptions(gate))
	s.check(err)
	configMaps, err := manager.NewConfigMaps(reader, watchOptions(gate))
	s.check(err)
	s.secrets = &kindOf[*corev1.Secret]{
		writer.CoreV1().Secrets(namespace), secrets,
		func(m metav1.ObjectMeta, data map[string][]byte) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: m, Data: data}
		},
		func(o *corev1.Secret) map[string][]byte { return o.Data },
	}
	s.kinds = []kind{s.secrets, &kindOf[*corev1.ConfigMap]{
		writer.CoreV1().ConfigMaps(namespace), configMaps,
		func(m metav1.ObjectMeta, data map[string][]byte) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: m, BinaryData: data}
		},
		func(o *corev1.ConfigMap) map[string][]byte { return o.BinaryData },
	}}
	return func() {
		for _, client := range []kubernetes.Interface{reader, writer} {
			utilnet.CloseIdleConnectionsFor(client.CoreV1().RESTClient().(*rest.RESTClient).Client.Transport)
		}
	}
}

// makeObjects makes the objects and the cohorts, without a request.
func (s *soak) makeObjects() {
	for i := range (s.options.Objects + objectsPerCohort - 1) / objectsPerCohort * objectsPerCohort {
		if i%objectsPerCohort == 0 {
			c := &cohort{}
			for j := range podsPerCohort {
				name := fmt.Sprintf("pod-%d-%d", len(s.cohorts), j)
				c.pods = append(c.pods, &pod{name: name, uid: types.UID(name)})
			}
			s.cohorts = append(s.cohorts, c)
		}
		name := fmt.Sprint("object-", i)
		o := &object{Object: s.history.Object(name), kind: s.kinds[i%len(s.kinds)], name: name, size: sizeOf(i / len(s.kinds))}
		s.objects = append(s.objects, o)
		c := s.cohorts[len(s.cohorts)-1]
		c.objects = append(c.objects, o)
	}
}

// start runs the managers and their followers. stop waits until they have ended.
func (s *soak) start() (stop func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(s.ctx, logr.Discard())) // a line for each cut connection
	objects := map[string]*object{}
	for _, o := range s.objects {
		objects[o.name] = o
	}
	var running sync.WaitGroup
	for _, k := range s.kinds {
		running.Go(func() {
			if err := k.run(ctx); err != nil {
				s.Error(err)
			}
		})
		running.Go(func() {
			k.follow(ctx, func(name string, state history.State, err error) { objects[name].Yield(state, err) })
		})
	}
	running.Go(func() { s.report(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.Cleanup(stop)
	return stop
}

// quarter is a quarter of the period: everything happens at the same time, then everything must become fresh. The
// server crashes in the third one.
func (s *soak) quarter(number int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.options.Period/4)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	each := func(count int, run func(context.Context, *rand.Rand) error) {
		for range count {
			group.Go(func() error { return run(ctx, rand.New(rand.NewPCG(rand.Uint64(), 0))) })
		}
	}
	each(writers, s.write)
	each(churners, s.churn)
	each(readers, s.read)
	each(1, s.fault)
	if number == 2 {
		group.Go(func() error { return s.crash(ctx) })
	}
	s.check(group.Wait())
	s.settle(fmt.Sprintf("quarter %d", number+1))
}

// check ends the test if there is an error.
func (s *soak) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
