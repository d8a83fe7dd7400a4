// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// progressPeriod is how often etcd notifies kube-apiserver of its progress while a
// consistent read waits.
const progressPeriod = 100 * time.Millisecond

// busyEtcd answers as a server whose etcd always has newer writes of other resources than
// the watch cache: a consistent read waits for the next progress notification. It counts
// the consistent reads.
func busyEtcd(t *testing.T, consistent *atomic.Int64) func(apiserver.Request) verdict {
	began := time.Now()
	return func(request apiserver.Request) verdict {
		if request.Query.Get("resourceVersion") == "" {
			consistent.Add(1)
			wait := time.NewTimer(progressPeriod - time.Since(began)%progressPeriod)
			defer wait.Stop()
			select {
			case <-wait.C:
			case <-t.Context().Done():
			}
		}
		return verdict{}
	}
}

// On a busy etcd each consistent read takes up to 100 ms. A start does not wait for one
// for each reference, because one read serves all references that came before it. 32 at a
// time would take 3.1 s for 1,000.
func TestStartOnABusyEtcd(t *testing.T) {
	crowd(t)
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		var consistent atomic.Int64
		s.answers(busyEtcd(t, &consistent))
		names := s.references(fewer(1000), "tls")
		time.Sleep(2 * time.Second)
		if got := s.read(names); got != len(names) {
			t.Errorf("read after 2 s: got %d of %d", got, len(names))
		}
		t.Logf("consistent reads: %d", consistent.Load())
		// All that open before the first answer read consistently: 256, by GateOptions.Opens, and the few beside them.
		if got := consistent.Load(); got > 300 {
			t.Errorf("consistent reads: got %d for %d references, want at most 300", got, len(names))
		}
	})
}

// A consistent read does not serve a reference that came after it began: on a server
// that lags, a state of that read is older than the reference.
func TestNewReferenceNeedsAConsistentReadOfItsOwn(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("first")
		r.create("tls")
		r.AddReference(namespace, "first", "pod-1")
		r.mustGet("first")
		r.server.Authorize(func(request apiserver.Request) bool { return request.Verb != "get" }) // no hedged read
		r.server.Lag(2 * time.Second)
		defer r.server.CatchUp()
		r.update("tls", "new")
		r.AddReference(namespace, "tls", "pod-2")
		if secret, err := r.get("tls", time.Second); err == nil {
			t.Errorf("while the server lags: got the value %q, want no answer", secret.Data["password"])
		}
		r.server.CatchUp()
		if got := string(r.mustGetWithin("tls", time.Minute).Data["password"]); got != "new" {
			t.Errorf("when the server has caught up: got the value %q, want the new one", got)
		}
	})
}

// A Get that demands a live read needs a read that began after it, and one such read may
// serve many of them.
func TestLiveGetNeedsAReadThatBeganAfterIt(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		const n = 200
		for i := range n {
			name := fmt.Sprint("tls-", i)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			if _, err := r.client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.AddReference(namespace, name, "pod")
			r.mustGetWithin(name, time.Minute)
		}
		r.server.Lag(2 * time.Second)
		defer r.server.CatchUp()
		r.update("tls-0", "new")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		late := make(chan string, n)
		for i := range n {
			go func() {
				secret, err := r.GetWithOptions(ctx, namespace, fmt.Sprint("tls-", i), objectcache.GetOptions{Live: true})
				if err != nil {
					late <- err.Error()
					return
				}
				late <- string(secret.Data["password"])
			}()
		}
		time.Sleep(time.Second)
		if got := len(late); got > 0 {
			t.Errorf("while the server lags: got %d answers, want none", got)
		}
		r.server.CatchUp()
		count := map[string]int{}
		for range n {
			count[<-late]++
		}
		if count["new"] != 1 || count[""] != n-1 {
			t.Errorf("values: got %v, want one new and the others empty", count)
		}
	})
}
