// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

func reflectorCases() []testCase {
	return []testCase{
		{"state-then-changes", "the state first, then every change, absence and recreation included", stateThenChanges},
		{"cut", "after a broken stream the state is the server's, whatever happened meanwhile", reflectorCut},
		{"forgotten", "after the server forgot the past the state is the server's", reflectorForgotten},
		{"rest", "a bare REST client does, whatever the size of the object", reflectorREST},
		{"one-of-many", "a selection of many objects is kept equal, by name and by label", reflectorMany},
		{"ends", "Run ends with its context, and its stream with it", reflectorEnds},
	}
}

// following is a reflector at work on a slot.
type following struct {
	*reflector.Reflector

	slot *cache.Slot[*corev1.Secret]
	stop func() // ends Run and waits for it
}

func (s *suite) source(options metav1.ListOptions) reflector.Source {
	secrets := s.client.CoreV1().Secrets(s.namespace)
	return reflector.FromListerWatcher(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector, o.LabelSelector = options.FieldSelector, options.LabelSelector
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector, o.LabelSelector = options.FieldSelector, options.LabelSelector
			return secrets.Watch(ctx, o)
		},
	})
}

// reflect follows one Secret until the case ends.
func (s *suite) reflect(name string) *following {
	return s.reflectFrom(s.source(selected(name)), name)
}

func (s *suite) reflectFrom(source reflector.Source, name string) *following {
	f := &following{slot: cache.NewSlot(s.key(name), cache.SlotOptions[*corev1.Secret]{})}
	f.Reflector = reflector.New(source, f.slot, reflector.Options{Name: name, Engine: s.engine})
	f.stop = s.background(f.Run)
	return f
}

// background runs f until the case ends, or until stop, which waits for it.
func (s *suite) background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	stop = func() { cancel(); <-done }
	s.Cleanup(stop)
	return stop
}

// until waits for the slot to hold value, or nothing if it is empty.
func (s *suite) until(f *following, value string) cache.State[*corev1.Secret] {
	s.Helper()
	for {
		changed := f.slot.Changed()
		state := f.slot.Load()
		if state.Synced && (value == "" && !state.Exists || state.Exists && valueOf(state.Object) == value) {
			return state
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			s.Fatalf("waiting for %q: got %q (exists: %v), status %+v", value, valueOf(state.Object), state.Exists, f.Status())
		}
	}
}

func stateThenChanges(s *suite) {
	f := s.reflect("tls")
	s.until(f, "")
	first := s.create("tls", "1")
	if got := s.until(f, "1"); got.ResourceVersion != first.ResourceVersion || got.Object.ManagedFields != nil {
		s.Errorf("got version %s with %d managedFields, want %s and none", got.ResourceVersion, len(got.Object.ManagedFields), first.ResourceVersion)
	}
	s.update("tls", "2")
	s.until(f, "2")
	s.remove("tls")
	s.until(f, "")
	second := s.create("tls", "3")
	if got := s.until(f, "3"); got.Object.UID != second.UID {
		s.Errorf("recreated: got UID %s, want %s", got.Object.UID, second.UID)
	}
	other := s.reflect("tls") // begins with what is there
	s.until(other, "3")
	if got := f.slot.Dropped(); got != (cache.Dropped{}) {
		s.Errorf("dropped: got %+v, want nothing", got)
	}
}

func reflectorCut(s *suite) {
	s.create("tls", "0")
	f := s.reflect("tls")
	s.until(f, "0")
	for i := range 3 {
		if err := s.Cut(s.ctx); err != nil {
			s.Fatal(err)
		}
		switch i % 2 {
		case 0:
			s.update("tls", fmt.Sprint("u", i))
			s.until(f, fmt.Sprint("u", i))
		case 1:
			s.remove("tls")
			s.create("tls", fmt.Sprint("c", i))
			s.until(f, fmt.Sprint("c", i))
		}
	}
}

func reflectorForgotten(s *suite) {
	s.create("tls", "1")
	f := s.reflect("tls")
	s.until(f, "1")
	s.create("other", "x") // so that versions pass which this stream does not see
	if err := s.Forget(s.ctx); err != nil {
		s.Fatal(err)
	}
	if err := s.Cut(s.ctx); err != nil {
		s.Fatal(err)
	}
	s.update("tls", "2")
	s.until(f, "2")
}

func reflectorREST(s *suite) {
	const large = 500 << 10 // bytes; a Secret may have 1 MiB
	f := s.reflectFrom(reflector.FromREST(&reflector.RESTResource{
		Client:    s.client.CoreV1().RESTClient(),
		Name:      "secrets",
		NewObject: func() runtime.Object { return &corev1.Secret{} },
		NewList:   func() runtime.Object { return &corev1.SecretList{} },
	}, s.namespace, "tls"), "tls")
	s.until(f, "")
	s.create("other", "x")
	s.create("tls", "1", func(secret *corev1.Secret) { secret.Data["large"] = make([]byte, large) })
	if got := s.until(f, "1"); len(got.Object.Data["large"]) != large {
		s.Errorf("created: got %d bytes, want %d", len(got.Object.Data["large"]), large)
	}
	if err := s.Cut(s.ctx); err != nil {
		s.Fatal(err)
	}
	s.update("tls", "2")
	if got := s.until(f, "2"); len(got.Object.Data) != 1 {
		s.Errorf("updated: got %d keys, want 1", len(got.Object.Data))
	}
	s.remove("tls")
	s.until(f, "")
}

func reflectorMany(s *suite) {
	labelled := func(secret *corev1.Secret) { secret.Labels = map[string]string{"of": "shop"} }
	for i := range 10 {
		s.create(fmt.Sprint("in-", i), "1", labelled)
		s.create(fmt.Sprint("out-", i), "1")
	}
	pushed := make(chan int, 1000)
	store := &toolscache.UndeltaStore{
		Store:    toolscache.NewStore(toolscache.MetaNamespaceKeyFunc),
		PushFunc: func(all []any) { pushed <- len(all) },
	}
	r := reflector.New(s.source(metav1.ListOptions{LabelSelector: "of=shop"}), store, reflector.Options{Engine: s.engine})
	s.background(r.Run)
	count := func(want int) {
		s.Helper()
		for {
			select {
			case got := <-pushed:
				if got == want {
					return
				}
			case <-s.ctx.Done():
				s.Fatalf("never %d objects, status %+v", want, r.Status())
			}
		}
	}
	count(10)
	s.remove("in-0")
	count(9)
	s.update("in-1", "2") // which takes its label away
	count(8)
	s.create("in-new", "1", labelled)
	count(9)
}

func reflectorEnds(s *suite) {
	s.create("tls", "1")
	f := s.reflect("tls")
	s.until(f, "1")
	if err := s.WaitForStreams(s.ctx, 1); err != nil {
		s.Errorf("while it runs: %v, want 1 stream", err)
	}
	f.stop()
	if err := s.WaitForStreams(s.ctx, 0); err != nil {
		s.Errorf("after Run has returned: %v, want no stream", err)
	}
}
