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

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/test/storetest"
)

func reflectorCases() []testCase {
	return []testCase{
		{"state-then-changes", "a store receives the state first, then every change, including deletion and recreation", stateThenChanges, watches},
		{"broken-stream", "after a broken stream a store equals the server again, including changes made meanwhile", reflectorBrokenStream, watches},
		{"compacted", "after a broken stream and a compaction (410) a store equals the server again", reflectorCompacted, watches},
		{"rest-client", "a REST client is enough as a source, for objects of any size", reflectorREST, watches},
		{"label-selector", "a store of many objects equals the server's objects with a label", reflectorLabelSelector, watches},
		{"stop", "Run returns when its context ends, and its stream has ended", reflectorStop, watches},
	}
}

// runningReflector is a running reflector and its slot, if it has one.
type runningReflector struct {
	slot   *storetest.Slot[*corev1.Secret]
	status func() any // for messages
	stop   func()     // stops Run and waits until it has returned
}

// restSource returns a source over a REST client. Its streams can be parked.
func (s *suite) restSource(name string) listwatch.Source {
	return listwatch.FromREST(&listwatch.RESTResource{
		Client:    s.client.CoreV1().RESTClient(),
		Name:      "secrets",
		NewObject: func() runtime.Object { return &corev1.Secret{} },
		NewList:   func() runtime.Object { return &corev1.SecretList{} },
	}, s.namespace, name)
}

func (s *suite) listWatch(options metav1.ListOptions) *toolscache.ListWatch {
	secrets := s.client.CoreV1().Secrets(s.namespace)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector, o.LabelSelector = options.FieldSelector, options.LabelSelector
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector, o.LabelSelector = options.FieldSelector, options.LabelSelector
			return secrets.Watch(ctx, o)
		},
	}
}

// startReflector runs a reflector of one Secret until the case ends.
func (s *suite) startReflector(name string) *runningReflector {
	slot := storetest.NewSlot[*corev1.Secret](s.key(name))
	r := s.reflect(s.restSource(name), s.listWatch(selectName(name)), slot)
	r.slot = slot
	return r
}

// reflect runs a reflector until the case ends: ours over source or, as the reference that it is held against,
// client-go's over listWatch.
func (s *suite) reflect(source listwatch.Source, listWatch *toolscache.ListWatch, store reflector.Store) *runningReflector {
	if s.engine.clientGo {
		theirs := toolscache.NewReflector(listWatch, &corev1.Secret{}, store, 0)
		return &runningReflector{status: func() any { return "unknown" }, stop: s.background(theirs.RunWithContext)}
	}
	ours := reflector.New(source, store, reflector.Options{})
	return &runningReflector{status: func() any { return ours.Status() }, stop: s.background(ours.Run)}
}

// waitForValue waits until the slot holds value. An empty value stands for no object.
func (s *suite) waitForValue(r *runningReflector, value string) states.State[*corev1.Secret] {
	s.Helper()
	for {
		changed := r.slot.Changed()
		state := r.slot.Load()
		if state.Synced && (value == "" && !state.Exists || state.Exists && valueOf(state.Object) == value) {
			return state
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			s.Fatalf("waiting for %q: got %q (exists: %v), status %+v", value, valueOf(state.Object), state.Exists, r.status())
		}
	}
}

func stateThenChanges(s *suite) {
	r := s.startReflector("tls")
	s.waitForValue(r, "")
	first := s.create("tls", "1")
	if got := s.waitForValue(r, "1"); got.ResourceVersion != first.ResourceVersion {
		s.Errorf("got version %s, want %s", got.ResourceVersion, first.ResourceVersion)
	}
	s.update("tls", "2")
	s.waitForValue(r, "2")
	s.remove("tls")
	s.waitForValue(r, "")
	second := s.create("tls", "3")
	if got := s.waitForValue(r, "3"); got.Object.UID != second.UID {
		s.Errorf("recreated: got UID %s, want %s", got.Object.UID, second.UID)
	}
	other := s.startReflector("tls") // starts with an existing object
	s.waitForValue(other, "3")
}

func reflectorBrokenStream(s *suite) {
	s.create("tls", "0")
	r := s.startReflector("tls")
	s.waitForValue(r, "0")
	for i := range 3 {
		s.breakStreams()
		switch i % 2 {
		case 0:
			s.update("tls", fmt.Sprint("u", i))
			s.waitForValue(r, fmt.Sprint("u", i))
		case 1:
			s.remove("tls")
			s.create("tls", fmt.Sprint("c", i))
			s.waitForValue(r, fmt.Sprint("c", i))
		}
	}
}

func reflectorCompacted(s *suite) {
	s.create("tls", "1")
	r := s.startReflector("tls")
	s.waitForValue(r, "1")
	s.create("other", "x") // raises the version, and this stream does not see it
	s.compact()
	s.breakStreams()
	s.update("tls", "2")
	s.waitForValue(r, "2")
}

func reflectorREST(s *suite) {
	const large = 500 << 10 // bytes; a Secret may have 1 MiB
	r := s.startReflector("tls")
	s.waitForValue(r, "")
	s.create("other", "x")
	s.create("tls", "1", func(secret *corev1.Secret) { secret.Data["large"] = make([]byte, large) })
	if got := s.waitForValue(r, "1"); len(got.Object.Data["large"]) != large {
		s.Errorf("created: got %d bytes, want %d", len(got.Object.Data["large"]), large)
	}
	s.breakStreams()
	s.update("tls", "2")
	if got := s.waitForValue(r, "2"); len(got.Object.Data) != 1 {
		s.Errorf("updated: got %d keys, want 1", len(got.Object.Data))
	}
	s.remove("tls")
	s.waitForValue(r, "")
}

func reflectorLabelSelector(s *suite) {
	labelled := func(secret *corev1.Secret) { secret.Labels = map[string]string{"app": "shop"} }
	for i := range 10 {
		s.create(fmt.Sprint("in-", i), "1", labelled)
		s.create(fmt.Sprint("out-", i), "1")
	}
	counts := make(chan int, 1000)
	store := &toolscache.UndeltaStore{
		Store:    toolscache.NewStore(toolscache.MetaNamespaceKeyFunc),
		PushFunc: func(all []any) { counts <- len(all) },
	}
	listWatch := s.listWatch(metav1.ListOptions{LabelSelector: "app=shop"})
	r := s.reflect(listwatch.FromListerWatcher(listWatch), listWatch, store)
	waitForCount := func(want int) {
		s.Helper()
		for {
			select {
			case got := <-counts:
				if got == want {
					return
				}
			case <-s.ctx.Done():
				s.Fatalf("waiting for %d objects: status %+v", want, r.status())
			}
		}
	}
	waitForCount(10)
	s.remove("in-0")
	waitForCount(9)
	s.update("in-1", "2") // without the label
	waitForCount(8)
	s.create("in-new", "1", labelled)
	waitForCount(9)
}

func reflectorStop(s *suite) {
	s.create("tls", "1")
	r := s.startReflector("tls")
	s.waitForValue(r, "1")
	s.wantStreams("while Run runs", 1)
	r.stop()
	s.wantStreams("after Run has returned", 0)
}
