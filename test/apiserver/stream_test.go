// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// follower rebuilds the state of a namespace from one stream, and checks the order of what it is told.
type follower struct {
	state map[string]string // name to resourceVersion
	last  uint64
}

func (f *follower) apply(event watch.Event) error {
	secret := event.Object.(*corev1.Secret)
	version, err := strconv.ParseUint(secret.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	initial := f.last == 0 // the state comes in the order of names; a bookmark ends it
	if !initial && version <= f.last && event.Type != watch.Bookmark {
		return fmt.Errorf("got version %d after %d", version, f.last)
	}
	held, ok := f.state[secret.Name]
	switch event.Type {
	case watch.Added:
		if ok {
			return fmt.Errorf("got %s added at %d, but it was there at %s", secret.Name, version, held)
		}
		f.state[secret.Name] = secret.ResourceVersion
	case watch.Modified:
		if !ok {
			return fmt.Errorf("got %s modified at %d, but it was not there", secret.Name, version)
		}
		f.state[secret.Name] = secret.ResourceVersion
	case watch.Deleted:
		if !ok {
			return fmt.Errorf("got %s deleted at %d, but it was not there", secret.Name, version)
		}
		delete(f.state, secret.Name)
	case watch.Bookmark:
	default:
		return fmt.Errorf("got %s", event.Type)
	}
	if !initial || event.Type == watch.Bookmark {
		f.last = version
	}
	return nil
}

// Streams opened at any moment while others write see every write once and in order, and end up with the
// same state as a list.
func TestStreamsAreComplete(t *testing.T) {
	for name, options := range map[string]Options{"http2": {MaxStreamsPerConnection: 4}, "http1": {DisableHTTP2: true}, "memory": {InMemory: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			writer := newClientFor(t, configOfItsOwn(f.Server)).CoreV1().Secrets("default")
			const writers, rounds, followers, last = 4, 30, 8, "the-last"
			// A bound so that what never ends fails with a cause; it is far above what any machine takes.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var writing, following errgroup.Group
			for w := range writers {
				writing.Go(func() error { return churn(ctx, writer, fmt.Sprintf("s%d", w), rounds) })
			}
			states := make([]follower, followers)
			for i := range states {
				following.Go(func() error {
					states[i].state = map[string]string{}
					return states[i].follow(ctx, f, last)
				})
			}
			err := writing.Wait()
			if err == nil {
				_, err = writer.Create(ctx, newSecret(last), metav1.CreateOptions{})
			}
			if err != nil {
				cancel() // or the followers would wait for what never comes
				t.Fatal(errors.Join(err, following.Wait()))
			}
			if err := following.Wait(); err != nil {
				t.Fatal(err)
			}
			list := f.page(metav1.ListOptions{})
			for i, follower := range states {
				if len(follower.state) != len(list.Items) {
					t.Errorf("follower %d: got %d secrets, want %d", i, len(follower.state), len(list.Items))
				}
				for _, item := range list.Items {
					if got := follower.state[item.Name]; got != item.ResourceVersion {
						t.Errorf("follower %d: got %s at %q, want %s", i, item.Name, got, item.ResourceVersion)
					}
				}
			}
		})
	}
}

// configOfItsOwn is for clients that share no connection with [Server.Client]. client-go keeps one transport
// for all configurations that say the same about it, so this one has to say something else.
//
// Followers hold their streams until the writers have written. On a shared connection a write could have to wait
// for a stream to end, and so for ever: until Go's HTTP/2 client has read a server's settings it takes 100
// streams for allowed, and a request that is on its way to a connection then stays with that connection.
func configOfItsOwn(s *Server) *rest.Config {
	config := s.Config()
	config.DisableCompression = true
	config.QPS = -1 // the default, five a second, would make minutes of it
	return config
}

// churn creates, updates and deletes one secret again and again.
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

// follow reads until the secret named last has been seen.
func (f *follower) follow(ctx context.Context, server *fixture, last string) error {
	w, err := server.client.CoreV1().Secrets("default").Watch(ctx, watchList())
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if err := f.apply(event); err != nil {
			return err
		}
		if _, ok := f.state[last]; ok && f.last != 0 {
			return nil
		}
	}
	return fmt.Errorf("the stream has ended at version %d", f.last)
}

// client-go's informer keeps equal to the server across cut streams and a compaction. (A restore it does not survive: it resumes
// with a plain watch at a version of the future, which is silent, here as on a real server.)
func TestInformerKeepsEqual(t *testing.T) {
	for name, options := range map[string]Options{"watchlist": {}, "list and watch": {DisableWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			events := make(chan string, 100)
			factory := informers.NewSharedInformerFactory(f.client, 0)
			informer := factory.Core().V1().Secrets().Informer()
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { events <- "add " + obj.(*corev1.Secret).Name },
				UpdateFunc: func(old, obj any) {
					// A relist after the compaction announces what has not changed, too.
					if secret := obj.(*corev1.Secret); secret.ResourceVersion != old.(*corev1.Secret).ResourceVersion {
						events <- "update " + secret.Name
					}
				},
				DeleteFunc: func(obj any) { events <- "delete" },
			}); err != nil {
				t.Fatal(err)
			}
			// A bound so that an event that never comes fails the test; nothing takes near as long.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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
					t.Fatalf("got nothing, want %s", want)
				}
			}
			first := f.createSecret(newSecret("a"))
			next("add a")
			f.CloseStreams(nil)
			f.updateSecret(first, "new")
			next("update a")
			if err := f.WaitFor(ctx, func() bool { return f.TotalStreams() == 1 }); err != nil {
				t.Fatal(err)
			}
			f.CloseStreams(nil)
			f.createSecret(newSecret("b"))
			f.Compact()
			next("add b")
			f.deleteSecret("a")
			next("delete")
		})
	}
}

// client-go's RetryWatcher resumes at a version, which is what the replay of history is for.
func TestRetryWatcherMissesNothing(t *testing.T) {
	f := newFixture(t, Options{})
	secret := f.createSecret(newSecret("a"))
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), secret.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", "a").String()
			return f.client.CoreV1().Secrets("default").Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { w.Stop(); <-w.Done() }()
	for i := range 5 {
		secret = f.updateSecret(secret, strconv.Itoa(i))
		if got := metaOf(t, expect(t, w, watch.Modified)).GetResourceVersion(); got != secret.ResourceVersion {
			t.Errorf("got version %s, want %s", got, secret.ResourceVersion)
		}
		f.CloseStreams(nil)
	}
}

// A connection that is full makes room on another: more watches than one connection carries.
func TestStreamLimit(t *testing.T) {
	f := newFixture(t, Options{MaxStreamsPerConnection: 1})
	for i := range 5 {
		expect(t, f.watchSecrets(named(fmt.Sprint("s", i), watchList())), watch.Bookmark)
	}
	if got := f.TotalStreams(); got != 5 {
		t.Errorf("got %d streams, want 5", got)
	}
	f.createSecret(newSecret("a")) // and other calls are served
}

// Close in the midst of everything returns, and leaves nothing behind.
func TestCloseUnderLoad(t *testing.T) {
	for name, options := range map[string]Options{"http2": {}, "http1": {DisableHTTP2: true}, "memory": {InMemory: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
			if err := f.WaitFor(ctx, func() bool { return len(f.Requests()) > 50 }); err != nil {
				t.Fatal(err)
			}
			f.Close()
			if got := f.TotalStreams(); got != 0 {
				t.Errorf("got %d streams after Close, want 0", got)
			}
			cancel() // client-go may be waiting to try again
			clients.Wait()
		})
	}
}
