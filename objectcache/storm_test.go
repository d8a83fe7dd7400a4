// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// storm is a store of Secrets and one of ConfigMaps with one gate, and a server that
// answers each object differently. None of the objects exists.
type storm struct {
	t          *testing.T
	server     *apiserver.Server
	gate       *objectcache.Gate
	secrets    *objectcache.WatchStore[*corev1.Secret]
	configMaps *objectcache.WatchStore[*corev1.ConfigMap]
	dials      atomic.Int64

	mu      sync.Mutex
	answer  func(apiserver.Request) verdict
	counts  map[string]int // requests by object
	callers sync.WaitGroup
}

// verdict is how the server answers a request.
type verdict struct {
	status *metav1.Status // nil: no error
	hangs  bool
}

// inStorm runs f in a bubble, with stores that are running.
func inStorm(t *testing.T, gate objectcache.GateOptions, f func(*testing.T, *storm)) {
	t.Helper()
	manyStreams(t)
	synctest.Test(t, func(t *testing.T) {
		s := &storm{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: !blockingStreams}), gate: objectcache.NewGate(gate), counts: map[string]int{}}
		s.server.Intercept(s.intercept)
		client := s.client()
		options := objectcache.WatchOptions{Gate: s.gate}
		s.secrets = newStore(t, resource.Secrets(client), options)
		s.configMaps = newStore(t, resource.ConfigMaps(client), options)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, run := range []func(context.Context) error{s.secrets.Run, s.configMaps.Run} {
			running.Go(func() { _ = run(ctx) })
		}
		synctest.Wait()
		f(t, s)
		cancel()
		running.Wait()
		s.callers.Wait()
	})
}

// client returns a client that counts its connections.
func (s *storm) client() kubernetes.Interface {
	config := s.server.Config()
	config.QPS = -1
	if !blockingStreams {
		config = resource.ConfigFor(config)
	}
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dials.Add(1)
		return dial(ctx, network, address)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// answers sets how the server answers.
func (s *storm) answers(f func(apiserver.Request) verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *storm) intercept(ctx context.Context, request apiserver.Request) *metav1.Status {
	s.mu.Lock()
	s.counts[request.Resource+"/"+request.Name]++
	f := s.answer
	s.mu.Unlock()
	over, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	<-over.Done()
	if f == nil {
		return nil
	}
	a := f(request)
	if a.hangs {
		<-ctx.Done()
	}
	return a.status
}

// requests returns how many there were, and how many of the object with most.
func (s *storm) requests() (all, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.counts {
		all += n
		most = max(most, n)
	}
	return all, most
}

// reset sets the counts of requests and dials to 0.
func (s *storm) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
	s.dials.Store(0)
}

// references adds references to n Secrets, and returns their names.
func (s *storm) references(n int, prefix string) (names []string) {
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		s.secrets.AddReference(namespace, name, "pod")
		names = append(names, name)
	}
	synctest.Wait()
	return names
}

// loops calls Get for each name repeatedly, until ctx ends.
func (s *storm) loops(ctx context.Context, names []string, limit, pause time.Duration) {
	for _, name := range names {
		s.callers.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = s.get(ctx, name, limit)
				over, cancel := context.WithTimeout(ctx, pause)
				<-over.Done()
				cancel()
			}
		})
	}
}

// get calls Get. It reports whether the Secret has been read, how long Get took, and
// its error.
func (s *storm) get(ctx context.Context, name string, limit time.Duration) (read bool, took time.Duration, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err = s.secrets.Get(ctx, namespace, name)
	status, _ := s.secrets.Status(namespace, name)
	return !status.LastContact.IsZero(), time.Since(began), err
}

// read returns how many of the Secrets have been read.
func (s *storm) read(names []string) (count int) {
	for _, name := range names {
		if status, _ := s.secrets.Status(namespace, name); !status.LastContact.IsZero() {
			count++
		}
	}
	return count
}

// countStatus returns how many Secrets have a status for which f returns true.
func (s *storm) countStatus(f func(objectcache.Status) bool) (count int) {
	for status := range s.secrets.Statuses() {
		if f(status) {
			count++
		}
	}
	return count
}

// getAll calls Get for all names at once, and checks that each is read within limit.
func (s *storm) getAll(names []string, limit time.Duration, message string) {
	s.t.Helper()
	var late atomic.Int64
	var calls sync.WaitGroup
	for _, name := range names {
		calls.Go(func() {
			if read, _, _ := s.get(s.t.Context(), name, limit); !read {
				late.Add(1)
			}
		})
	}
	calls.Wait()
	if n := late.Load(); n > 0 {
		s.t.Errorf("%s: got %d of %d late, want all within %v", message, n, len(names), limit)
	}
}
