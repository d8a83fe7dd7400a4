// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
)

// caseTimeout makes a case fail instead of hang. A case takes less than a tenth of it.
const caseTimeout = 2 * time.Minute

// suite is the environment of one case: a namespace of its own, and clients.
type suite struct {
	*testing.T
	Rig
	Setting

	engine    engine
	ctx       context.Context
	client    kubernetes.Interface // of the code under test
	admin     kubernetes.Interface // of the suite itself
	namespace string
}

func newSuite(t *testing.T, rig Rig, setting Setting, engine engine) *suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	t.Cleanup(cancel)
	s := &suite{T: t, Rig: rig, Setting: setting, engine: engine, ctx: ctx}
	if engine.strategy == watches {
		s.Config = s.streaming(rig.Config)
	}
	s.client, s.admin = s.clientFor(s.Config), s.clientFor(s.Direct)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	created, err := s.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	s.namespace = created.Name
	t.Cleanup(s.cleanup)
	return s
}

// clientFor returns a client. Its idle connections are closed when the case ends.
func (s *suite) clientFor(config *rest.Config) kubernetes.Interface {
	s.Helper()
	client, err := kubernetes.NewForConfigAndClient(config, s.httpClientFor(config))
	if err != nil {
		s.Fatalf("client of the rig: %v", err)
	}
	return client
}

func (s *suite) httpClientFor(config *rest.Config) *http.Client {
	s.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		s.Fatalf("HTTP client of the rig: %v", err)
	}
	s.Cleanup(func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) })
	return httpClient
}

// storeOptions returns the options of a store with the strategy of the case.
func (s *suite) storeOptions() objectcache.StoreOptions {
	switch s.engine.strategy {
	case ttl:
		return objectcache.TTLOptions{TTL: 50 * time.Millisecond} // so that Gets read again
	case direct:
		return objectcache.DirectOptions{}
	}
	return objectcache.WatchOptions{}
}

// background runs f in a goroutine. The context of f ends at stop, or when the case ends. stop waits until f has
// returned.
func (s *suite) background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	stop = func() { cancel(); <-done }
	s.Cleanup(stop)
	return stop
}

// start runs a store or manager in the background.
func (s *suite) start(runner interface{ Run(context.Context) error }) (stop func()) {
	return s.background(func(ctx context.Context) {
		if err := runner.Run(ctx); err != nil {
			s.Errorf("Run: got %v, want nil", err)
		}
	})
}

func (s *suite) breakStreams() {
	s.Helper()
	if err := s.BreakStreams(s.ctx); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) compact() {
	s.Helper()
	if err := s.Compact(s.ctx); err != nil {
		s.Fatal(err)
	}
}

// wantStreams waits until want streams are open on the server.
func (s *suite) wantStreams(when string, want int) {
	s.Helper()
	if err := s.WaitForStreams(s.ctx, want); err != nil {
		s.Fatalf("%s: %v, want %d streams", when, err, want)
	}
}

// cleanup deletes the namespace. It runs after everything that the case has started was stopped.
func (s *suite) cleanup() {
	// The context of the test has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), caseTimeout)
	defer cancel()
	if err := s.admin.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
		s.Errorf("delete namespace: %v", err)
	}
	if err := s.WaitForStreams(ctx, 0); err != nil {
		s.Errorf("after the case: %v, want no stream", err)
	}
}
