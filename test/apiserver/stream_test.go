// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// replica rebuilds the state of a namespace from one stream, and checks the order of its events.
type replica struct {
	state map[string]string // name to resourceVersion
	last  uint64
}

func (r *replica) apply(event watch.Event) error {
	secret := event.Object.(*corev1.Secret)
	version, err := strconv.ParseUint(secret.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	initial := r.last == 0 // the initial state is sorted by name; a bookmark ends it
	if !initial && version <= r.last && event.Type != watch.Bookmark {
		return fmt.Errorf("got version %d after %d, want a higher one", version, r.last)
	}
	held, ok := r.state[secret.Name]
	switch event.Type {
	case watch.Added:
		if ok {
			return fmt.Errorf("got %s added at %d, but it exists at %s", secret.Name, version, held)
		}
		r.state[secret.Name] = secret.ResourceVersion
	case watch.Modified:
		if !ok {
			return fmt.Errorf("got %s modified at %d, but it does not exist", secret.Name, version)
		}
		r.state[secret.Name] = secret.ResourceVersion
	case watch.Deleted:
		if !ok {
			return fmt.Errorf("got %s deleted at %d, but it does not exist", secret.Name, version)
		}
		delete(r.state, secret.Name)
	case watch.Bookmark:
	default:
		return fmt.Errorf("got %s", event.Type)
	}
	if !initial || event.Type == watch.Bookmark {
		r.last = version
	}
	return nil
}

// TestStreamsAreComplete checks that a stream opened during writes receives every write once and in order, and ends
// with the same state as a list.
func TestStreamsAreComplete(t *testing.T) {
	for name, options := range map[string]Options{"http2": {MaxStreamsPerConnection: 4}, "http1": {DisableHTTP2: true}, "memory": {InMemory: true}, "memory, http2": {InMemory: true, TLS: true, MaxStreamsPerConnection: 4}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			writer := newClientFor(t, separateConfig(f.Server)).CoreV1().Secrets("default")
			const writers, rounds, readers, last = 4, 30, 8, "the-last"
			ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
			defer cancel()
			var writing, reading errgroup.Group
			for w := range writers {
				writing.Go(func() error { return churn(ctx, writer, fmt.Sprintf("s%d", w), rounds) })
			}
			replicas := make([]replica, readers)
			for i := range replicas {
				reading.Go(func() error {
					replicas[i].state = map[string]string{}
					return replicas[i].read(ctx, f, last)
				})
			}
			err := writing.Wait()
			if err == nil {
				_, err = writer.Create(ctx, newSecret(last), metav1.CreateOptions{})
			}
			if err != nil {
				cancel() // the readers would wait for the last secret
				t.Fatal(errors.Join(err, reading.Wait()))
			}
			check(t, reading.Wait())
			list := f.listSecrets(metav1.ListOptions{})
			for i, replica := range replicas {
				if len(replica.state) != len(list.Items) {
					t.Errorf("replica %d: got %d secrets, want %d", i, len(replica.state), len(list.Items))
				}
				for _, item := range list.Items {
					if got := replica.state[item.Name]; got != item.ResourceVersion {
						t.Errorf("replica %d: got %s at %q, want %s", i, item.Name, got, item.ResourceVersion)
					}
				}
			}
		})
	}
}

// separateConfig returns a configuration for clients that share no connection with [Server.Client]. client-go uses one
// transport for all configurations with equal transport settings, so this one has another setting.
//
// The readers keep their streams open until the writers have finished. On a shared connection, a write could wait for
// ever for a stream to end: Go's HTTP/2 client assumes 100 streams until it has read the server's settings, and a
// request that it has assigned to a connection stays there.
func separateConfig(s *Server) *rest.Config {
	config := s.Config()
	config.DisableCompression = true
	config.QPS = -1 // with the default, 5 a second, the test would take minutes
	return config
}

// churn creates, updates and deletes one secret in each round. It keeps the last one.
func churn(ctx context.Context, secrets clientcorev1.SecretInterface, name string, rounds int) error {
	for i := range rounds {
		secret := newSecret(name)
		if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
		secret.Data["key"] = []byte(strconv.Itoa(i))
		if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if i == rounds-1 {
			break
		}
		if err := secrets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// read applies the events of a watch until the secret named last exists.
func (r *replica) read(ctx context.Context, f *fixture, last string) error {
	w, err := f.client.CoreV1().Secrets("default").Watch(ctx, watchList())
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if err := r.apply(event); err != nil {
			return err
		}
		if _, ok := r.state[last]; ok && r.last != 0 {
			return nil
		}
	}
	return fmt.Errorf("got the end of the stream at version %d, want secret %s", r.last, last)
}

// TestInformer checks that client-go's informer equals the server after ended streams and a compaction. An informer
// does not recover from a restore: it resumes with a plain watch at a future version, which is silent, as in
// kube-apiserver.
func TestInformer(t *testing.T) {
	for name, options := range map[string]Options{"watchlist": {}, "list and watch": {DisableWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			events := make(chan string, 100)
			factory := informers.NewSharedInformerFactory(f.client, 0)
			informer := factory.Core().V1().Secrets().Informer()
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { events <- "add " + obj.(*corev1.Secret).Name },
				UpdateFunc: func(old, obj any) {
					// After the compaction, a relist updates unchanged objects too.
					if secret := obj.(*corev1.Secret); secret.ResourceVersion != old.(*corev1.Secret).ResourceVersion {
						events <- "update " + secret.Name
					}
				},
				DeleteFunc: func(obj any) { events <- "delete" },
			}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
			factory.StartWithContext(ctx)
			defer factory.Shutdown()
			defer cancel()
			next := func(want string) {
				t.Helper()
				select {
				case got := <-events:
					if got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				case <-ctx.Done():
					t.Fatalf("got no event, want %s", want)
				}
			}
			first := f.createSecret(newSecret("a"))
			next("add a")
			f.CloseStreams(nil)
			f.updateSecret(first, "new")
			next("update a")
			check(t, f.WaitFor(ctx, func() bool { return f.TotalStreams() == 1 }))
			f.CloseStreams(nil)
			f.createSecret(newSecret("b"))
			f.Compact()
			next("add b")
			f.deleteSecret("a")
			next("delete")
		})
	}
}

// TestCloseUnderLoad checks that Close returns while clients send requests, and that no goroutine is left.
func TestCloseUnderLoad(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
			defer cancel()
			var clients sync.WaitGroup
			for i := range 8 {
				clients.Go(func() {
					for ctx.Err() == nil {
						w, err := f.client.CoreV1().Secrets("default").Watch(ctx, watchList())
						if err != nil {
							return
						}
						_, err = f.client.CoreV1().Secrets("default").Update(ctx, newSecret(fmt.Sprint("s", i)), metav1.UpdateOptions{})
						w.Stop()
						if !apierrors.IsNotFound(err) {
							return
						}
					}
				})
			}
			check(t, f.WaitFor(ctx, func() bool { return len(f.Requests()) > 50 }))
			f.Close()
			if got := f.TotalStreams(); got != 0 {
				t.Errorf("after Close: got %d streams, want 0", got)
			}
			cancel() // stops the retries of client-go
			clients.Wait()
		})
	}
}
