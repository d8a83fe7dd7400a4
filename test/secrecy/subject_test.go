// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/derived"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/canary"
	"github.com/refwatch/refwatch/test/testmain"
)

var key = types.NamespacedName{Namespace: namespace, Name: "tls"}

// subject is a manager of any kind of object, with everything that prints it.
type subject struct {
	rig      *rig
	set      func(keys ...types.NamespacedName)
	get      func(ctx context.Context) error
	reads    map[string]func(ctx context.Context) error
	statuses func() iter.Seq[objectcache.Status]
	printed  map[string]any // what a program may print by accident
	outputs  map[string]func() string
	stop     func() error
	changes  *canary.Log // what Changes yielded
}

// newSubject starts a manager of a resource.
func newSubject[E any, T interface {
	*E
	cache.Object
}](r *rig, resource resource.Resource[T], s strategy) *subject {
	r.Helper()
	if s.transform != nil {
		resource = resource.WithTransform(func(object T) T { s.transform(object); return object })
	}
	store, err := objectcache.NewStore(resource, s.options)
	if err != nil {
		r.Fatal(err)
	}
	m, err := manager.New(store, nil)
	if err != nil {
		r.Fatal(err)
	}
	u := &subject{rig: r, statuses: m.Statuses, changes: &canary.Log{}, outputs: map[string]func() string{}}
	owner := manager.Owner{Kind: "Pod", Namespace: namespace, Name: "pod", UID: "pod"}
	u.set = func(keys ...types.NamespacedName) {
		m.SetReferences(owner, keys...)
	}
	u.get = func(ctx context.Context) error { _, err := m.Get(ctx, namespace, "tls"); return err }
	u.reads = map[string]func(ctx context.Context) error{
		"Get of a stranger": func(ctx context.Context) error { _, err := m.Get(ctx, namespace, "other"); return err },
		"TryGet":            func(context.Context) error { _, err := m.TryGet(namespace, "tls"); return err },
		"Get with demands": func(ctx context.Context) error {
			_, err := m.GetWithOptions(ctx, namespace, "tls", objectcache.GetOptions{MaxStaleness: time.Nanosecond})
			return err
		},
		"WaitForSync": func(ctx context.Context) error { return m.WaitForSync(ctx, key) },
	}
	values := derived.New(m, func(object T) (string, error) { return fmt.Sprint(object), nil })
	panicking := derived.New(m, func(object T) (string, error) { panic(fmt.Sprint(object)) })
	u.reads["Derived"] = func(ctx context.Context) error { _, err := values.Get(ctx, namespace, "tls"); return err }
	u.reads["Derived that panics"] = func(ctx context.Context) error { _, err := panicking.Get(ctx, namespace, "tls"); return err }
	u.printed = map[string]any{
		"manager": m, "store": store, "resource": resource, "options": s.options, "owner": owner, "derived": values,
	}
	u.show(m)
	u.run(r.Context(), m.Run, func(ctx context.Context) {
		for change, owners := range m.Changes(ctx) {
			_, _ = u.changes.Write([]byte(canary.Print(change) + canary.Print(&change) + canary.Print(owners)))
		}
	})
	return u
}

// run starts a manager and a caller of Changes.
func (s *subject) run(ctx context.Context, run func(context.Context) error, follow func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var followers sync.WaitGroup
	followers.Go(func() { follow(ctx) })
	s.stop = func() error { cancel(); followers.Wait(); return <-done }
}

// source is what metrics and the debug page read.
type source interface {
	metrics.Store
	debug.Source
}

// show makes the debug pages and the metrics.
func (s *subject) show(m source) {
	s.rig.Helper()
	handler, err := debug.NewHandler(debug.Options{Sources: map[string]debug.Source{"secrets": m}})
	if err != nil {
		s.rig.Fatal(err)
	}
	collector, err := metrics.NewCollector(map[string]metrics.Store{"secrets": m})
	if err != nil {
		s.rig.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	for _, query := range []string{"", "?format=json", "?sort=age", "?q=tls", "?object=default/tls"} {
		s.outputs["debug page"+query] = func() string {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest("GET", "/"+query, nil))
			return fmt.Sprint(recorder.Result().Header, recorder.Body)
		}
	}
	s.outputs["metrics"] = func() string {
		families, err := registry.Gather()
		var out strings.Builder
		for _, family := range families {
			_, _ = expfmt.MetricFamilyToText(&out, family)
		}
		return out.String() + canary.Print(err)
	}
	s.outputs["status"] = func() string {
		var out strings.Builder
		for status := range m.Statuses() {
			out.WriteString(canary.Print(status) + canary.Print(&status) + canary.Print(status.LastError))
		}
		return out.String()
	}
	if !testmain.Race { // printing its Gate takes no lock
		s.outputs["stats"] = func() string { return canary.Print(m.Stats()) }
	}
}

// check searches all outputs, and calls every kind of read.
func (s *subject) check(when string) {
	t, canaries := s.rig.T, s.rig.canaries
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	canaries.Check(t, when+": error of Get", canary.Print(s.get(ctx)))
	for name, read := range s.reads {
		canaries.Check(t, when+": error of "+name, canary.Print(read(ctx)))
	}
	if !testmain.Race { // printing takes no lock
		synctest.Wait()
		for name, value := range s.printed {
			canaries.Check(t, when+": printed "+name, canary.Print(value))
		}
	}
	for name, output := range s.outputs {
		canaries.Check(t, when+": "+name, output())
	}
	canaries.Check(t, when+": changes", s.changes.Take())
	canaries.Check(t, when+": log", s.rig.log.Take())
}
