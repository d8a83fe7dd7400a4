// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
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
	"github.com/refwatch/refwatch/test/network"
)

// resources are those of the kinds.
var resources = []string{"secrets", "configmaps"}

// watchOptions are those of both managers. They share a Gate.
func watchOptions(gate *objectcache.Gate) objectcache.WatchOptions {
	return objectcache.WatchOptions{Gate: gate}
}

// UserAgent is that of the managers under test.
const UserAgent = "refwatch-soak"

// Server is the API server of a run. It has no Secrets and ConfigMaps in the namespace.
type Server struct {
	// Config is that of an administrator. The objects are written with it.
	Config *rest.Config
	// Namespace is that of all objects. It exists. Default: default
	Namespace string
	// Client is that of the managers under test. Default: Config.
	Client *rest.Config
	// Streams returns how many watches of Secrets and ConfigMaps are open on the server.
	Streams func(context.Context) (int, error)
	// Observe makes the server call the functions with the resource and name of each watch that it opens and closes for
	// [UserAgent]. Default: none; then only the number of all streams is checked.
	Observe func(opened, closed func(resource, name string))
	// Crash kills the server and starts it again. It returns when the server is ready. If it is nil, connections are
	// refused for some seconds instead.
	Crash func(context.Context) error
	// Goroutines are those of Streams and Crash, which may be left when the run ends. Default: none.
	Goroutines []goleak.Option
}

// soak is a run.
type soak struct {
	testing.TB
	part    string // of the results
	server  Server
	options Options
	ctx     context.Context // ends with the test
	checker *history.Checker
	history *history.Recorder
	began   time.Time

	network *connections
	other   kubernetes.Interface // of managers that run shortly
	secrets kind
	kinds   []kind
	objects []*object
	cohorts []*cohort

	follower    history.Follower // of both kinds
	endFollower func()

	quiet sync.RWMutex // read-locked during a write

	uids      atomic.Int64 // of pods
	replaced  atomic.Int64 // changes of cohorts
	writes    atomic.Int64
	shutDowns atomic.Int64 // of other managers
	needed    int          // connections, without those that were cut or became half open
	rows      []row
	cleanups  []func() // of the cycle
	printed   int      // violations
	streams   int      // on the server, before the run

	mu     sync.Mutex
	faults map[string]int // how many were injected, by name
}

// Run runs the managers of Secrets and ConfigMaps against a server for the period, and fails the test if a promise is
// broken: see the package documentation.
func Run(t *testing.T, server Server, options Options) {
	s := newSoak(t, "soak", server, options)
	s.run(s.quarters())
}

// RunCycles is like Run, with other faults.
func RunCycles(t *testing.T, server Server, options Options, cycles []Cycle) {
	newSoak(t, "chaos", server, options).run(cycles)
}

func newSoak(t *testing.T, part string, server Server, options Options) *soak {
	server.Namespace = cmp.Or(server.Namespace, metav1.NamespaceDefault)
	if server.Client == nil {
		server.Client = server.Config
	}
	s := &soak{
		TB: t, part: part, server: server, options: options, ctx: t.Context(), began: time.Now(),
		faults:  map[string]int{},
		checker: history.NewChecker(options.limits()),
	}
	s.network = newConnections(server.Client, func() { s.history.Dial() })
	return s
}

func (s *soak) run(cycles []Cycle) {
	leaked := goleak.IgnoreCurrent()
	defer s.openHistory()()
	closeConnections := s.connect()
	s.makeObjects()
	s.observe()
	s.check(s.writeAll(s.ctx, func(*object) bool { return true }))
	s.streams = s.countStreams()
	before := heap()

	stop := s.start()
	start := s.history.Fault("start", s.options.Fresh)
	s.register()
	s.needed += s.options.connections()
	s.settle("registered", s.options.freshWithin(), 0)
	start.End()
	for _, c := range cycles {
		s.cycle(c)
	}
	s.rest()
	for _, c := range s.cohorts {
		c.unregister(s)
	}
	s.awaitStreams("unregistered", func(left int) bool { return left == s.streams })
	stop()
	s.closeAll(closeConnections)
	goleak.VerifyNone(s, append(s.server.Goroutines, leaked)...)
	s.measure("stopped", 0)
	s.finish(before)
}

// connect makes the clients and managers.
func (s *soak) connect() (closeConnections func()) {
	s.Helper()
	config := rest.CopyConfig(s.server.Client)
	config.Dial = s.network.others.Dial
	other, err := manager.ClientFor(config)
	s.check(err)
	s.other = other
	config.Dial, config.UserAgent = s.network.managers.Dial, UserAgent
	config.Wrap(s.record)
	reader, err := manager.ClientFor(config)
	s.check(err)
	direct := rest.CopyConfig(s.server.Config)
	direct.QPS = -1
	direct.Dial = network.New(s.server.Config.Dial).Dial // connections of its own
	writer, err := kubernetes.NewForConfig(direct)
	s.check(err)

	gate := objectcache.NewGate(objectcache.GateOptions{})
	secrets, err := manager.NewSecrets(reader, watchOptions(gate))
	s.check(err)
	configMaps, err := manager.NewConfigMaps(reader, watchOptions(gate))
	s.check(err)
	namespace := s.server.Namespace
	s.secrets = &kindOf[*corev1.Secret]{
		namespace, writer.CoreV1().Secrets(namespace), secrets,
		func(m metav1.ObjectMeta, data map[string][]byte, immutable *bool) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: m, Data: data, Immutable: immutable}
		},
		func(o *corev1.Secret) (map[string][]byte, *bool) { return o.Data, o.Immutable },
	}
	s.kinds = []kind{s.secrets, &kindOf[*corev1.ConfigMap]{
		namespace, writer.CoreV1().ConfigMaps(namespace), configMaps,
		func(m metav1.ObjectMeta, data map[string][]byte, immutable *bool) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: m, BinaryData: data, Immutable: immutable}
		},
		func(o *corev1.ConfigMap) (map[string][]byte, *bool) { return o.BinaryData, o.Immutable },
	}}
	return func() {
		for _, client := range []kubernetes.Interface{reader, other, writer} {
			utilnet.CloseIdleConnectionsFor(client.CoreV1().RESTClient().(*rest.RESTClient).Client.Transport)
		}
	}
}

// Names returns the names of the objects by their resource.
func (o Options) Names() map[string][]string {
	names := map[string][]string{}
	for i := range o.objects() {
		resource := resources[i%len(resources)]
		names[resource] = append(names[resource], nameOf(i))
	}
	return names
}

// objects returns the number of objects, which fill all cohorts.
func (o Options) objects() int {
	return (o.Objects + objectsPerCohort - 1) / objectsPerCohort * objectsPerCohort
}

// connections returns how many connections the streams of all objects need.
func (o Options) connections() int {
	return (o.objects() + streamsPerConnection - 1) / streamsPerConnection
}

func nameOf(i int) string { return fmt.Sprint("object-", i) }

// makeObjects makes the objects and the cohorts, without a request.
func (s *soak) makeObjects() {
	for i := range s.options.objects() {
		if i%objectsPerCohort == 0 {
			c := &cohort{}
			for j := range podsPerCohort {
				name := fmt.Sprintf("pod-%d-%d", len(s.cohorts), j)
				c.pods = append(c.pods, &pod{name: name, uid: types.UID(name)})
			}
			s.cohorts = append(s.cohorts, c)
		}
		name := nameOf(i)
		resource := resources[i%len(resources)]
		o := &object{
			Object: s.history.Object(s.fullName(resource, name)), kind: s.kinds[i%len(s.kinds)], name: name,
			size: sizeOf(i / len(s.kinds)), immutable: i%objectsPerCohort < immutablePerCohort,
		}
		s.objects = append(s.objects, o)
		c := s.cohorts[len(s.cohorts)-1]
		c.objects = append(c.objects, o)
	}
}

// start runs the managers, and follows the changes of both as one follower. stop waits until all has ended, endFollower
// until the follower has.
func (s *soak) start() (stop func()) {
	ctx, cancel := context.WithCancel(s.logless())
	objects := map[string]*object{}
	for _, o := range s.objects {
		objects[o.name] = o
	}
	followed, unfollow := context.WithCancel(ctx)
	var running, following sync.WaitGroup
	s.follower = s.history.Follow()
	for _, k := range s.kinds {
		running.Go(func() {
			if err := k.run(ctx); err != nil {
				s.Error(err)
			}
		})
		following.Go(func() {
			k.follow(followed, func(name string, state history.State, err error) {
				s.follower.Yield(objects[name].Object, state, err)
			})
		})
	}
	running.Go(func() { s.report(ctx) })
	s.endFollower = sync.OnceFunc(func() {
		unfollow()
		following.Wait()
		s.follower.End()
	})
	stop = sync.OnceFunc(func() {
		s.endFollower()
		cancel()
		running.Wait()
	})
	s.Cleanup(stop)
	return stop
}

// logless returns the context of the run without logs, which have a line for each cut connection.
func (s *soak) logless() context.Context { return klog.NewContext(s.ctx, logr.Discard()) }

// check ends the test if there is an error.
func (s *soak) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
