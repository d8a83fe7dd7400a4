// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The rig of the tests with client-go's stores: an API server, and the consumer of a
// queue. A ConfigMap "a" with value "1" is written "a=1".

// site is an API server in a bubble, with the ConfigMaps of one namespace.
type site struct {
	*testing.T

	server  *apiserver.Server
	objects typedcorev1.ConfigMapInterface
	saved   *apiserver.State
}

func newSite(t *testing.T, options apiserver.Options) *site {
	t.Helper()
	options.InMemory = true
	server := apiserver.New(t, options)
	return &site{T: t, server: server, objects: server.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault)}
}

// source selects all ConfigMaps of the namespace, as a user of client-go does.
func (s *site) source() listwatch.Source {
	client := s.server.Client()
	return listwatch.FromListerWatcher(toolscache.ToListWatcherWithWatchListSemantics(toolscache.NewListWatchFromClient(
		client.CoreV1().RESTClient(), "configmaps", metav1.NamespaceDefault, fields.Everything()), client))
}

// put creates or updates ConfigMaps, given as "a=1".
func (s *site) put(objects ...string) {
	s.Helper()
	for _, text := range objects {
		name, value, _ := strings.Cut(text, "=")
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
		_, err := s.objects.Update(s.Context(), object, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = s.objects.Create(s.Context(), object, metav1.CreateOptions{})
		}
		if err != nil {
			s.Error(err)
		}
	}
}

// remove deletes ConfigMaps by name.
func (s *site) remove(names ...string) {
	s.Helper()
	for _, name := range names {
		if err := s.objects.Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	}
}

// away makes changes while the server has ended all streams and refuses new ones.
func (s *site) away(changes func()) {
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

// textOf writes an object as "a=1", and a tombstone as "a=1 (final state unknown)".
func textOf(object any) string {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		return o.Name + "=" + o.Data["value"]
	case toolscache.DeletedFinalStateUnknown:
		return textOf(o.Obj) + " (final state unknown)"
	case toolscache.ReplacedAllInfo:
		return textsOf(o.Objects)
	case toolscache.BookmarkInfo:
		return o.ResourceVersion
	case toolscache.SyncAllInfo:
		return "all"
	}
	return fmt.Sprintf("a %T", object)
}

// textsOf writes objects as "a=1 b=1", in order.
func textsOf(objects []any) string {
	all := make([]string, 0, len(objects))
	for _, object := range objects {
		all = append(all, textOf(object))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// consumer pops a queue into an indexer, as an informer does, and records what it pops.
type consumer struct {
	known toolscache.Indexer

	mu     sync.Mutex
	popped []string
}

// newConsumer returns a consumer without a queue: most queues need to know its indexer.
func newConsumer() *consumer {
	return &consumer{known: toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, byValue)}
}

// consume pops a queue until the test ends.
func (c *consumer) consume(t *testing.T, queue toolscache.Queue) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			_, err := queue.Pop(c.process)
			if errors.Is(err, toolscache.ErrFIFOClosed) {
				return
			}
			if err != nil {
				t.Errorf("Pop: got error %v", err)
			}
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(queue.Close)
}

// process stores what was popped, and records it.
func (c *consumer) process(popped any, _ bool) error {
	deltas, ok := popped.(toolscache.Deltas)
	if !ok { // an object: the queue is a FIFO
		c.record(textOf(popped))
		return c.known.Update(popped)
	}
	return c.processBatch(deltas, false)
}

func (c *consumer) processBatch(deltas []toolscache.Delta, _ bool) error {
	for _, d := range deltas {
		c.record(string(d.Type) + " " + textOf(d.Object))
		if err := c.apply(d); err != nil {
			return err
		}
	}
	return nil
}

func (c *consumer) apply(d toolscache.Delta) error {
	switch d.Type {
	case toolscache.Deleted:
		return c.known.Delete(d.Object)
	case toolscache.ReplacedAll:
		all := d.Object.(toolscache.ReplacedAllInfo)
		return c.known.Replace(all.Objects, all.ResourceVersion)
	case toolscache.Bookmark:
		c.known.Bookmark(d.Object.(toolscache.BookmarkInfo).ResourceVersion)
		return nil
	case toolscache.SyncAll:
		return nil
	}
	return c.known.Update(d.Object)
}

func (c *consumer) record(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.popped = append(c.popped, text)
}

// take returns what was popped since the last call, in the order of the texts: the order
// of a state is random.
func (c *consumer) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	popped := c.popped
	c.popped = nil
	slices.Sort(popped)
	return popped
}

// byValue indexes ConfigMaps by their value.
var byValue = toolscache.Indexers{"value": func(object any) ([]string, error) {
	return []string{object.(*corev1.ConfigMap).Data["value"]}, nil
}}

// indexed returns the objects that the index of an indexer finds.
func indexed(t *testing.T, indexer toolscache.Indexer) (objects []any) {
	for _, value := range indexer.ListIndexFuncValues("value") {
		found, err := indexer.ByIndex("value", value)
		if err != nil {
			t.Error(err)
		}
		objects = append(objects, found...)
	}
	return objects
}

// keyed makes a ReflectorStore of a ThreadSafeStore, whose methods take a key.
type keyed struct{ toolscache.ThreadSafeStore }

func (k keyed) Add(object any) error    { k.ThreadSafeStore.Add(keyOf(object), object); return nil }
func (k keyed) Update(object any) error { k.ThreadSafeStore.Update(keyOf(object), object); return nil }
func (k keyed) Delete(object any) error { k.DeleteWithObject(keyOf(object), object); return nil }

func (k keyed) Replace(objects []any, version string) error {
	items := make(map[string]any, len(objects))
	for _, object := range objects {
		items[keyOf(object)] = object
	}
	k.ThreadSafeStore.Replace(items, version)
	return nil
}

func keyOf(object any) string { return object.(*corev1.ConfigMap).Name }

// soonEnough is longer than the pause after a failure.
const soonEnough = 30 * time.Second
