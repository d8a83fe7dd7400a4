// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"flag"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// buffer is a bytes.Buffer for many writers.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// captureLog turns klog up to 10, where client-go prints every body it reads.
func captureLog(t *testing.T) *buffer {
	t.Helper()
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"v": "10", "logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	out := &buffer{}
	klog.SetOutput(out)
	return out
}

// forms are the ways in which data could show in a text.
func forms(data string) []string {
	decimal := strings.Trim(fmt.Sprintf("%d", []byte(data)), "[]")
	return []string{
		"canary",   // also beside a hex dump, which breaks lines
		"Y2FuYXJ5", // base64 of its beginning
		fmt.Sprintf("%x", data),
		decimal, strings.ReplaceAll(decimal, " ", ", "),
	}
}

// Through a whole life, lists and streams in JSON included, no log line and no
// error holds what the object holds.
func TestSecretsStayOutOfLogsAndErrors(t *testing.T) {
	tests := map[string]apiserver.Options{
		"WatchList":      {InMemory: true},
		"list and watch": {InMemory: true, DisableWatchList: true},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			out := captureLog(t)
			var errs []error
			synctest.Test(t, func(t *testing.T) {
				errs = troubledLife(t, newRig(t, options, objectcache.WatchOptions{}))
			})
			log := out.String()
			if !strings.Contains(log, "Cannot read the object") || !strings.Contains(log, "Starting to watch") {
				t.Errorf("the log does not tell of the life of a stream:\n%s", log)
			}
			for _, form := range forms(canary) {
				if strings.Contains(log, form) {
					t.Errorf("the log holds object data as %q", form)
				}
				for _, err := range errs {
					if err != nil && strings.Contains(err.Error(), form) {
						t.Errorf("error %v holds object data as %q", err, form)
					}
				}
			}
		})
	}
}

// troubledLife takes a store through what can go wrong and returns all errors.
// Its client speaks JSON, so that a body in a log could be read.
func troubledLife(t *testing.T, r *rig) (errs []error) {
	config := r.server.Config()
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, objectcache.Secrets(client), objectcache.WatchOptions{})
	stop := runStore(t.Context(), t, store)
	var verbosity klog.Level
	_ = verbosity.Set("0") // client-go may print the bodies of this test's own writes
	r.create("tls")
	_ = verbosity.Set("10")
	store.AddReference(namespace, "tls", "pod")
	if _, err := store.Get(t.Context(), namespace, "tls"); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []func(){
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

// After the last reference nothing in memory reaches the object.
func TestObjectIsFreedAfterTheLastReference(t *testing.T) {
	tests := map[string]struct {
		options objectcache.WatchOptions
		change  []func(*corev1.Secret)
		leave   func(*rig)
	}{
		"last reference": {leave: func(r *rig) { r.DeleteReference(namespace, "tls", "pod") }},
		"immutable": {
			change: []func(*corev1.Secret){immutable},
			leave:  func(r *rig) { r.DeleteReference(namespace, "tls", "pod") },
		},
		"immutable, while it is read for a new owner": {
			change: []func(*corev1.Secret){immutable},
			leave: func(r *rig) {
				release := r.holdBack("watch")
				defer release()
				r.AddReference(namespace, "tls", "other")
				synctest.Wait()
				r.DeleteReference(namespace, "tls", "other")
				r.DeleteReference(namespace, "tls", "pod")
			},
		},
		"immutable, after a recheck": {
			change: []func(*corev1.Secret){immutable},
			leave:  func(r *rig) { time.Sleep(time.Hour); r.DeleteReference(namespace, "tls", "pod") },
		},
		"last reference, with an idle time-out": {
			options: objectcache.WatchOptions{IdleTimeout: time.Hour},
			leave:   func(r *rig) { r.DeleteReference(namespace, "tls", "pod") },
		},
		"idle":    {options: objectcache.WatchOptions{IdleTimeout: time.Minute}, leave: func(*rig) { time.Sleep(5 * time.Minute) }},
		"stopped": {leave: func(r *rig) { r.stop() }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			freed := make(chan struct{})
			inBubble(t, test.options, func(t *testing.T, r *rig) {
				r.create("tls", test.change...)
				r.AddReference(namespace, "tls", "pod")
				r.closeWhenFreed("tls", freed)
				test.leave(r)
				synctest.Wait()
				collect(t, freed)
			})
		})
	}
}

// closeWhenFreed runs in a goroutine of its own, for a test's stack may hold on
// to what was on it.
func (r *rig) closeWhenFreed(name string, freed chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.AddCleanup(r.mustGet(name), func(freed chan struct{}) { close(freed) }, freed)
	}()
	<-done
}

// collect garbage until freed is closed. A cleanup runs some time after a
// collection, so a few may be needed.
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
