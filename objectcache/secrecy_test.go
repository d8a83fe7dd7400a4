// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	canaries "github.com/refwatch/refwatch/test/canary"
)

// checkSecrecy fails the test if a text holds object data, in any encoding.
func checkSecrecy(t *testing.T, where string, texts ...string) {
	t.Helper()
	var data canaries.Canaries
	data.Add(canary)
	for _, text := range texts {
		data.Check(t, where, text)
	}
}

// No log line and no error holds object data, whatever happens to a stream.
func TestNoObjectDataInLogsAndErrors(t *testing.T) {
	lists := apiserver.Options{InMemory: true, DisableWatchList: true}
	ofSource := func(client kubernetes.Interface) resource.Resource[*corev1.Secret] {
		return resource.FromSource(source{client}, corev1.SchemeGroupVersion.WithResource("secrets"))
	}
	tests := map[string]struct {
		options apiserver.Options
		kind    func(kubernetes.Interface) resource.Resource[*corev1.Secret]
	}{
		"WatchList":             {apiserver.Options{InMemory: true}, resource.Secrets},
		"list and watch":        {lists, resource.Secrets},
		"client-go, which logs": {lists, ofSource},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				out := canaries.CaptureLog(t)
				var errs []error
				synctest.Test(t, func(t *testing.T) {
					errs = runWithFaults(t, newRig(t, test.options, objectcache.WatchOptions{}), test.kind)
				})
				log := out.Take()
				if !strings.Contains(log, "Cannot read the object") || !strings.Contains(log, "Starting to watch") {
					t.Errorf("log: got\n%s\nwant the start and a failure of a stream", log)
				}
				checkSecrecy(t, "log", log)
				for _, err := range errs {
					checkSecrecy(t, "error", canaries.Print(err))
				}
			})
		}
	})
}

// source reads Secrets with a clientset of client-go, which logs bodies at a verbosity of 8 and more.
type source struct{ kubernetes.Interface }

func (s source) List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	return s.CoreV1().Secrets(namespace).List(ctx, options)
}

func (s source) Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	return s.CoreV1().Secrets(namespace).Watch(ctx, options)
}

func (s source) Get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return s.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// runWithFaults runs a store through several faults and returns all errors. Its client
// uses JSON: a log of a body has its data in base64.
func runWithFaults(t *testing.T, r *rig, kind func(kubernetes.Interface) resource.Resource[*corev1.Secret]) (errs []error) {
	config := resource.ConfigFor(r.server.Config())
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, kind(client), objectcache.WatchOptions{})
	stop := runStore(t.Context(), t, store)
	var verbosity klog.Level
	_ = verbosity.Set("0") // the test's own writes may be logged
	r.create("tls")
	_ = verbosity.Set("10")
	store.AddReference(namespace, "tls", "pod")
	if _, err := store.Get(t.Context(), namespace, "tls"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the store logs the start on a goroutine
	for _, fault := range []func(){
		func() { _ = verbosity.Set("0"); r.update("tls", canary+canary); _ = verbosity.Set("10") },
		func() { r.server.CloseStreams(nil) },
		func() { r.server.Compact(); r.server.CloseStreams(nil) },
		func() { r.refuse(unavailable()); r.server.CloseStreams(nil) },
		func() { r.refuse(forbidden()) },
		func() { r.refuse(nil) },
	} {
		fault()
		time.Sleep(time.Minute)
		status, _ := store.Status(namespace, "tls")
		errs = append(errs, status.LastError)
	}
	_, err = store.Get(t.Context(), namespace, "stranger")
	errs = append(errs, err)
	stop()
	_, err = store.Get(t.Context(), namespace, "tls")
	return append(errs, err)
}

// After the last reference the object can be collected.
func TestObjectIsFreedAfterTheLastReference(t *testing.T) {
	tests := map[string]struct {
		options objectcache.WatchOptions
		change  []func(*corev1.Secret)
		end     func(*rig)
	}{
		"last reference": {end: func(r *rig) { r.DeleteReference(namespace, "tls", "pod") }},
		"immutable": {
			change: []func(*corev1.Secret){immutable},
			end:    func(r *rig) { r.DeleteReference(namespace, "tls", "pod") },
		},
		"immutable, while it is read for a new owner": {
			change: []func(*corev1.Secret){immutable},
			end: func(r *rig) {
				release := r.holdBack("list")
				defer release()
				r.AddReference(namespace, "tls", "other")
				synctest.Wait()
				r.DeleteReference(namespace, "tls", "other")
				r.DeleteReference(namespace, "tls", "pod")
			},
		},
		"immutable, after a recheck": {
			change: []func(*corev1.Secret){immutable},
			end:    func(r *rig) { time.Sleep(time.Hour); r.DeleteReference(namespace, "tls", "pod") },
		},
		"last reference, with an idle time-out": {
			options: objectcache.WatchOptions{IdleTimeout: time.Hour},
			end:     func(r *rig) { r.DeleteReference(namespace, "tls", "pod") },
		},
		"idle":    {options: objectcache.WatchOptions{IdleTimeout: time.Minute}, end: func(*rig) { time.Sleep(5 * time.Minute) }},
		"stopped": {end: func(r *rig) { r.stop() }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parkedAndBlocking(t, func(t *testing.T) {
				freed := make(chan struct{}) // outside the bubble, as cleanups are
				inBubble(t, test.options, func(t *testing.T, r *rig) {
					r.create("tls", test.change...)
					r.AddReference(namespace, "tls", "pod")
					r.closeWhenFreed("tls", freed)
					test.end(r)
					synctest.Wait()
					collect(t, freed)
				})
			})
		})
	}
}

// closeWhenFreed closes freed when the object has been collected. It uses a goroutine,
// because the stack of the test could keep the object.
func (r *rig) closeWhenFreed(name string, freed chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.AddCleanup(r.mustGet(name), func(freed chan struct{}) { close(freed) }, freed)
	}()
	<-done
}

// collect collects garbage until freed is closed. The cleanup runs some time after a
// collection, so it may take several.
func collect(t *testing.T, freed <-chan struct{}) {
	t.Helper()
	for range 1000 {
		goruntime.GC()
		select {
		case <-freed:
			return
		default:
			goruntime.Gosched()
		}
	}
	t.Error("the object is still reachable")
}
