// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// fed is a slot that client-go's own Reflector writes, and the API server of its object.
type fed struct {
	*testing.T

	server *apiserver.Server
	slot   *cache.Slot[*corev1.Secret]
	stop   func() // ends the reflector
}

// inFedBubble runs f in a bubble, on a server with WatchList and on one without.
func inFedBubble(t *testing.T, f func(*fed)) {
	for name, options := range map[string]apiserver.Options{"WatchList": {}, "list": {DisableWatchList: true}} {
		options.InMemory = true
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fed{T: t, server: apiserver.New(t, options), slot: newSlot()}
				shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
				if _, err := s.server.Client().CoreV1().Namespaces().Create(t.Context(), shop, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				s.start()
				f(s)
			})
		})
	}
}

// start runs client-go's Reflector until stop or the end of the test. It selects the
// object by its name.
func (s *fed) start() {
	client := s.server.Client()
	source := toolscache.ToListWatcherWithWatchListSemantics(toolscache.NewListWatchFromClient(client.CoreV1().RESTClient(),
		"secrets", key.Namespace, fields.OneTermEqualSelector("metadata.name", key.Name)), client)
	engine := toolscache.NewReflectorWithOptions(source, &corev1.Secret{}, s.slot, toolscache.ReflectorOptions{})
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	// Not RunWithContext: the global back-off of its error reports sleeps in real time.
	running.Go(func() {
		for ctx.Err() == nil {
			_ = engine.ListAndWatchWithContext(ctx)
			pause(ctx, time.Second)
		}
	})
	s.stop = func() { cancel(); running.Wait() }
	s.Cleanup(s.stop)
}

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// put creates or updates the object.
func (s *fed) put(value string) {
	s.Helper()
	secrets := s.server.Client().CoreV1().Secrets(key.Namespace)
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: key.Name}, StringData: map[string]string{"value": value}}
	_, err := secrets.Update(s.Context(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(s.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *fed) remove() {
	s.Helper()
	if err := s.server.Client().CoreV1().Secrets(key.Namespace).Delete(s.Context(), key.Name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// away makes changes while the server has ended all streams and refuses new ones.
func (s *fed) away(changes func()) {
	s.server.Intercept(func(_ context.Context, r apiserver.Request) *metav1.Status {
		if r.Verb != "list" && r.Verb != "watch" {
			return nil
		}
		status := apierrors.NewServiceUnavailable("starting").Status()
		return &status
	})
	s.server.CloseStreams(nil)
	synctest.Wait()
	changes()
	s.server.Intercept(nil)
}

// check compares the slot with a value, "" for no object, once the reflector has had time.
func (s *fed) check(when, value string, epoch uint64) {
	s.Helper()
	pause(s.Context(), 2*time.Minute) // client-go's back-off is a minute at most
	synctest.Wait()
	state := s.slot.Load()
	got := ""
	if state.Exists {
		got = string(state.Object.Data["value"])
	}
	if !state.Synced || got != value || state.Epoch != epoch {
		s.Errorf("%s: got %q (synced: %v) in epoch %d, want %q in epoch %d", when, got, state.Synced, state.Epoch, value, epoch)
	}
}

// client-go's own Reflector keeps a slot equal to the server, through broken streams, a
// compaction and a restart of the reflector.
func TestSlotFedByClientGo(t *testing.T) {
	inFedBubble(t, func(s *fed) {
		s.check("without the object", "", 0)
		s.put("1")
		s.check("create", "1", 0)
		s.put("2")
		s.check("update", "2", 0)
		s.remove()
		s.check("delete", "", 0)
		s.put("3")
		s.check("recreate", "3", 0)

		s.server.CloseStreams(nil)
		s.check("broken stream", "3", 0)
		s.away(func() { s.put("4") })
		s.check("update without a stream", "4", 0)
		s.away(s.remove)
		s.check("delete without a stream", "", 0)
		s.away(func() { s.put("5"); s.put("6"); s.server.Compact() })
		s.check("compaction", "6", 0)
		s.away(func() { s.remove(); s.put("7"); s.server.Compact() })
		s.check("recreate and compaction", "7", 0)
	})
}

// Another Reflector takes over through Next. What has not changed is no change.
func TestSlotFedByAnotherClientGoReflector(t *testing.T) {
	inFedBubble(t, func(s *fed) {
		s.put("1")
		s.check("create", "1", 0)
		s.stop()
		before := s.slot
		s.slot = before.Next()
		notified := s.slot.Changed()
		s.start()
		s.check("after a restart", "1", 0)
		if changed(notified) {
			s.Error("Changed: got a change, want none: the object is the same")
		}
		s.put("2")
		s.check("update", "2", 0)
		if got := before.Load(); string(got.Object.Data["value"]) != "1" {
			s.Errorf("the slot before: got %q, want what it had", got.Object.Data["value"])
		}

		s.stop()
		s.put("3")
		s.remove()
		s.slot = s.slot.Next()
		s.start()
		s.check("deletion without a reflector", "", 0)
	})
}

// After an etcd restore client-go's Reflector reads an older state, for the version that
// it has seen is too large. It does not report that the server was rolled back: the slot
// drops the read as stale, until another Reflector takes over through Next.
func TestSlotFedByClientGoAfterARestore(t *testing.T) {
	inFedBubble(t, func(s *fed) {
		s.put("1")
		s.check("create", "1", 0)
		backup := s.server.Snapshot()
		s.put("2")
		s.put("3")
		s.check("update", "3", 0)
		s.away(func() { s.server.Restore(backup) })
		s.check("restore", "3", 0)

		s.stop()
		s.slot = s.slot.Next()
		s.start()
		s.check("after a restart of the reflector", "1", 1)
		s.put("4") // at a version that the slot before had seen
		s.check("update", "4", 1)
	})
}
