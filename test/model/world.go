// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
	"github.com/refwatch/refwatch/test/network"
)

// servers is how many API servers there are behind one address.
const servers = 2

// userAgent is that of the subjects. Faults affect their requests only.
const userAgent = "refwatch-model"

// Options are those of a run.
type Options struct {
	// NewSubjects makes the managers under test: one for each of Secrets, ConfigMaps and widgets, or for the first of
	// them. Default: those of this library.
	NewSubjects func(ctx context.Context, config *rest.Config, options objectcache.WatchOptions) ([]Subject, error)
	// Lasting is set if the subjects keep what was referenced until they end: in the end they are stopped before the
	// last references are removed. Default: an object without references is dropped at once.
	Lasting bool
	// Allowed reports whether the subjects may send a request that is not a list, a watch or a get of one object, such
	// as a write. Default: they send none.
	Allowed func(request apiserver.Request) bool
	// Streams is how many streams an object may have at rest. Default: 1.
	Streams int
	// Rereads is set if the subjects may read an object that has a stream again, such as after a write that failed.
	// Default: while it has owners, they do not.
	Rereads bool
	// Recovery is added to the time within which all must be fresh after a fault. Default: none.
	Recovery time.Duration
	// Limits changes what is checked of the history. Default: the limits of this library.
	Limits func(limits *history.Limits)
}

// World is a cluster with two API servers, a network, and managers under test, in one bubble of testing/synctest.
type World struct {
	server  *apiserver.Server
	servers []*apiserver.Server // server, and its replica: the subjects dial them in turn
	network *network.Network

	settings   settings
	options    Options
	ctx        context.Context
	client     kubernetes.Interface // writes
	kinds      []*kind
	subjects   []Subject
	namespaces []string
	objects    []*Object
	byName     sync.Map // *Object by its name; the server reads it while probes add objects
	owners     map[int]*owner
	backup     *backup
	contents   int                       // writes so far
	restores   atomic.Int64              // of backups
	lags       map[*apiserver.Server]int // faults that have stopped the watch cache
	late       int                       // owners that probe and finish have made
	kept       map[*Object]int64         // the requests that there were of objects with a stream, before their references changed
	proved     uint64                    // provedRestores when that was checked
	rested     bool                      // all goroutines were idle before the step

	lent     lent
	output   *output
	checker  *history.Checker
	recorder *history.Recorder

	faults    []*activeFault
	begun     atomic.Int64 // faults so far
	quietFrom time.Time    // when all must be fresh again after the faults so far
	followers []*follower
	calls     sync.WaitGroup // Gets under way
	requests  atomic.Int64
	gets      atomic.Int64 // that may have sent a request
	alone     atomic.Bool  // the newest fault found all at rest, so no other one disturbs its responses
	injected  injections
	effects   atomic.Int64 // of faults on the subjects
	closed    atomic.Int64 // responses that have closed their connection, and that no dial has followed

	mu         sync.Mutex
	problem    error                                  // of the world itself: the first one
	blocked    map[types.NamespacedName]chan struct{} // objects whose transform blocks until the channel is closed
	intercepts list[apiserver.Interceptor]
	dials      list[func(number int) network.Dial]
}

// Result is what a run has found.
type Result struct {
	history.Report

	Requests int64
	Reached  int64 // how often a fault has changed something for a subject
	Texts    int64 // log lines, errors and statuses that were searched for object data
	Dials    int
	Virtual  time.Duration // how long it took in virtual time
	Err      error         // the run itself went wrong
}

// Failure describes what went wrong, and is empty if nothing did.
func (r *Result) Failure() string {
	var b strings.Builder
	if r.Err != nil {
		fmt.Fprintln(&b, r.Err)
	}
	for _, v := range r.Violations {
		fmt.Fprintln(&b, v)
	}
	if more := r.Count - len(r.Violations); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}

// Run runs the schedule in a bubble.
func (s Schedule) Run(t *testing.T, options Options) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w, err := newWorld(t.Context(), s.settings(), options)
		if w.server != nil {
			defer w.server.Close()
		}
		if err != nil {
			result.Err = err
			return
		}
		stop := w.run()
		end := w.begin()
		w.do(s)
		w.finish(stop)
		end()
		stop()
		w.checkLent()
		for _, leak := range w.output.find() {
			w.violate("S8", nil, "the output of the managers has object data: %v", leak)
		}
		result = Result{
			Report: w.checker.Finish(time.Now()), Requests: w.requests.Load(), Reached: w.effects.Load(), Texts: w.output.texts,
			Dials: w.network.Counts().Dials, Virtual: time.Since(began), Err: w.failed(),
		}
	})
	return result
}

func newWorld(ctx context.Context, s settings, options Options) (w *World, err error) {
	if options.NewSubjects != nil { // only the stores of this library have other strategies
		s.direct, s.ttl = false, 0
	}
	limits := s.limits()
	if options.Limits != nil {
		options.Limits(&limits)
	}
	w = &World{
		settings: s, options: options, ctx: klog.NewContext(ctx, logr.Discard()), output: newOutput(),
		owners: map[int]*owner{}, kept: map[*Object]int64{}, blocked: map[types.NamespacedName]chan struct{}{},
		lags: map[*apiserver.Server]int{}, checker: history.NewChecker(limits), lent: lent{objects: map[metav1.Object][sha256.Size]byte{}},
	}
	w.recorder = history.NewRecorder(history.Options{Checker: w.checker})
	if err = w.startServers(s.server); err != nil {
		return w, err
	}
	if err = w.connect(); err != nil {
		return w, err
	}

	config := w.server.Config()
	config.UserAgent = userAgent
	w.network = network.New(config.Dial, w.servers[1].Config().Dial)
	w.network.OnDial(w.dial)
	config.Dial = w.network.Dial
	w.hook()
	s.transform = w.transform
	newSubjects := options.NewSubjects
	if newSubjects == nil {
		newSubjects = s.newSubjects
	}
	watch := s.watch
	watch.OutageGrace = -1 // the Gets of a schedule wait
	if w.subjects, err = newSubjects(w.ctx, config, watch); err != nil {
		return w, err
	}
	w.kinds = w.kinds[:len(w.subjects)]
	for i := range s.namespaces {
		w.namespaces = append(w.namespaces, fmt.Sprint("ns-", i))
		w.createNamespace(w.namespaces[i])
	}
	for range s.objects {
		w.newObject()
	}
	w.server.Observe(w.observer())
	w.server.Intercept(w.interceptRequest)
	w.snapshot()
	return w, w.failed()
}

func (w *World) startServers(options apiserver.Options) (err error) {
	options.InMemory, options.TLS, options.CustomResources = true, true, []apiserver.CustomResource{widgetDefinition}
	if w.server, err = apiserver.Start(options); err != nil {
		return err
	}
	replica, err := w.server.Replica()
	w.servers = []*apiserver.Server{w.server, replica}
	return err
}

// connect makes the client that writes, and the kinds that it writes.
func (w *World) connect() error {
	config := w.server.Config()
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	if w.client, err = kubernetes.NewForConfigAndClient(config, httpClient); err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return err
	}
	w.kinds = newKinds(w.client, dynamicClient)
	return nil
}

// newObject adds an object that does not exist.
func (w *World) newObject() *Object {
	i := len(w.objects)
	o := &Object{Index: i, Kind: i % len(w.kinds)}
	o.Key.Namespace = w.namespaces[i/len(w.kinds)%len(w.namespaces)]
	o.Key.Name = fmt.Sprint("object-", i)
	name := nameOf(w.kinds[o.Kind].resource.String(), o.Key)
	o.Object = w.recorder.Object(name)
	w.objects = append(w.objects, o)
	w.byName.Store(name, o)
	return o
}

// run runs the managers. stop checks that they end within a second, once.
func (w *World) run() (stop func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(w.ctx, w.output.logger()))
	var running sync.WaitGroup
	for _, s := range w.subjects {
		running.Go(func() { w.must(s.Run(ctx)) })
	}
	synctest.Wait()
	return sync.OnceFunc(func() {
		began := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(began); took > time.Second {
			w.violate("L2", nil, "Run returned %v after its context had ended, want it within a second", took)
		}
	})
}

// do runs the steps of a schedule.
func (w *World) do(s Schedule) {
	quick := 0
	w.rested = true
	for _, step := range s {
		if w.failed() != nil {
			return
		}
		if step.Op == opQuick {
			quick = step.arg(0) + 1
		}
		step.run(w)
		if quick--; quick < 0 {
			synctest.Wait()
		}
		if w.rested && quick < 0 {
			w.checkKept(step)
		}
		clear(w.kept)
		w.rested = quick < 0
		if len(w.objects) <= mostChecked {
			w.checkKeys(step)
		}
	}
}

// must records that the world itself does not work.
func (w *World) must(err error) {
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.problem == nil {
			w.problem = fmt.Errorf("the run itself failed: %w", err)
		}
	}
}

// failed returns why the world itself does not work.
func (w *World) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem
}

// violate records that a rule does not hold. The object may be nil.
func (w *World) violate(rule string, o *Object, format string, args ...any) {
	name := ""
	if o != nil {
		name = o.Name()
	}
	w.checker.Violate(rule, name, format, args...)
}

// intercept adds a function that the server calls for each request of the subjects, until remove is called. The first
// of them that returns a Status decides.
func (w *World) intercept(f apiserver.Interceptor) (remove func()) { return addTo(w, &w.intercepts, f) }

// onDial adds a function that is called with the number of each dial of the subjects, until remove is called. The first
// of them that returns a Dial decides.
func (w *World) onDial(f func(number int) network.Dial) (remove func()) { return addTo(w, &w.dials, f) }

func (w *World) interceptRequest(ctx context.Context, request apiserver.Request) *metav1.Status {
	if !ofSubjects(request) {
		return nil
	}
	w.requests.Add(1)
	w.checkRetryAfter(request)
	for _, f := range functionsOf(w, &w.intercepts) {
		if status := f(ctx, request); status != nil {
			w.noteRetryAfter(request, status)
			w.reached()
			return status
		}
	}
	return nil
}

func (w *World) dial(number int) network.Dial {
	if w.closed.Add(-1) < 0 { // it replaces no connection that the server has closed
		w.closed.Add(1)
		w.recorder.Dial()
	}
	for _, f := range functionsOf(w, &w.dials) {
		if dial := f(number); dial != nil {
			w.reached()
			return dial
		}
	}
	return nil
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// sleep waits, in virtual time.
func sleep(d time.Duration) { <-time.After(d) }
