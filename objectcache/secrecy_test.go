// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"cmp"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
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

// After the last reference the object can be collected.
func TestObjectIsFreedAfterTheLastReference(t *testing.T) {
	tests := map[string]struct {
		options objectcache.StoreOptions // default: WatchOptions
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
		"TTL, during a read": {
			options: objectcache.TTLOptions{},
			end: func(r *rig) {
				release := r.holdBack("get")
				defer release()
				time.Sleep(time.Minute)
				_, _ = r.TryGet(namespace, "tls")
				synctest.Wait()
				r.DeleteReference(namespace, "tls", "pod")
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parkedAndBlocking(t, func(t *testing.T) {
				freed := make(chan struct{}) // outside the bubble, as cleanups are
				inBubble(t, cmp.Or[objectcache.StoreOptions](test.options, objectcache.WatchOptions{}), func(t *testing.T, r *rig) {
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
