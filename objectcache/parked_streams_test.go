// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// A store that parks its streams works with every client and server. A stream that cannot
// be parked has a goroutine.
func TestParkedStreamsOfEveryClient(t *testing.T) {
	tests := map[string]struct {
		server apiserver.Options
		change func(*parkedRig, *rest.Config)
		blocks bool // the streams cannot be parked
	}{
		"HTTP/2":       {},
		"a rate limit": {change: func(_ *parkedRig, c *rest.Config) { c.QPS, c.Burst = 100, 10 }},
		"JSON": {change: func(_ *parkedRig, c *rest.Config) {
			c.AcceptContentTypes, c.ContentType = "application/json", "application/json"
		}},
		"HTTP/1.1":  {server: apiserver.Options{DisableHTTP2: true}, blocks: true},
		"a Timeout": {change: func(_ *parkedRig, c *rest.Config) { c.Timeout = time.Minute }, blocks: true},
		"a wrapper that hides the body": {change: func(_ *parkedRig, c *rest.Config) {
			c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return bodyHider{rt} })
		}, blocks: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inParkedBubble(t, 12, test.server, test.change, func(t *testing.T, r *parkedRig) {
				r.reference()
				want := 0
				if test.blocks {
					want = len(r.names)
				}
				if got := readers(); got != want {
					t.Errorf("got %d streams with a goroutine, want %d", got, want)
				}
				time.Sleep(90 * time.Second) // longer than the Timeout
				r.updateAll("new")
				r.wantAll("after an update", "new", 5*time.Second)
				r.cut()
				r.updateAll("newest")
				r.wantAll("after a cut", "newest", 5*time.Second)
			})
		})
	}
}

// After a fault all parked streams are open again, on as many connections as they need.
// After the last reference there is no stream, and 90 s later no connection.
func TestParkedStreamsAfterAFault(t *testing.T) {
	const n = 20
	tests := map[string]struct {
		fault func(*parkedRig)
		limit time.Duration
	}{
		"connections cut": {func(r *parkedRig) { r.cut(); r.updateAll("new") }, time.Second},
		"streams ended":   {func(r *parkedRig) { r.server.CloseStreams(nil); r.updateAll("new") }, time.Second},
		"outage and compaction": {func(r *parkedRig) {
			r.network.OnDial(func(int) network.Dial { return network.Refuse })
			r.cut()
			r.updateAll("new")
			r.server.Compact()
			time.Sleep(time.Minute)
			r.network.OnDial(nil)
		}, 10 * time.Second},
		"half-open connections": {func(r *parkedRig) { r.network.Each((*network.Conn).Freeze); r.updateAll("new") }, 50 * time.Second},
		"etcd restored": {func(r *parkedRig) {
			r.updateAll("new")
			state := r.server.Snapshot()
			r.updateAll("lost")
			r.wantAll("before the restore", "lost", time.Second)
			r.server.Restore(state)
		}, 15 * time.Second},
		"etcd restored, and versions reached again": {func(r *parkedRig) {
			state := r.server.Snapshot()
			r.updateAll("lost")
			r.wantAll("before the restore", "lost", time.Second)
			r.server.Restore(state)
			r.updateAll("other")
			r.updateAll("new")
		}, 15 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inParkedBubble(t, n, apiserver.Options{}, nil, func(t *testing.T, r *parkedRig) {
				r.reference()
				before := r.connections()
				test.fault(r)
				r.wantAll("after the fault", "new", test.limit)
				if more := r.connections() - before; more > n/streamsPerConnection+2 {
					t.Errorf("got %d connections more, want %d at most", more, n/streamsPerConnection+2)
				}
				r.updateAll("newest")
				r.wantAll("later", "newest", time.Second)
				for _, name := range r.names {
					r.DeleteReference(namespace, name, "pod")
				}
				r.wantNothingOpen("the last reference")
			})
		})
	}
}

// A function of WithTransform that blocks for some objects delays others of the same connection by less than a second.
func TestBlockedTransformOnAConnection(t *testing.T) {
	free := make(chan struct{})
	blocks := func(r *parkedRig, _ *rest.Config) {
		r.transform = func(secret *corev1.Secret) *corev1.Secret {
			if string(secret.Data["password"]) == "blocked" {
				<-free
			}
			return secret
		}
	}
	inParkedBubble(t, 5, apiserver.Options{}, blocks, func(t *testing.T, r *parkedRig) {
		free = make(chan struct{}) // of the bubble
		r.reference()
		all := r.names
		r.names = all[:2]
		r.updateAll("blocked")
		r.names = all[2:]
		r.updateAll("new")
		r.wantAll("beside blocked transforms", "new", time.Second)
		close(free)
		r.names = all[:2]
		r.wantAll("later", "blocked", time.Second)
	})
}

// Run ends at once, and leaves nothing open, whatever a stream is about to do: each step
// of opening one, and each function of the program, takes a millisecond.
func TestStopAtAnyMoment(t *testing.T) {
	tests := map[string]func(*parkedRig){
		"opening": func(r *parkedRig) {
			for _, name := range r.names {
				r.AddReference(namespace, name, "pod")
			}
		},
		"storing an event": func(r *parkedRig) { r.reference(); r.updateAll("new") },
		"opening again":    func(r *parkedRig) { r.reference(); r.server.CloseStreams(nil) },
		"closing": func(r *parkedRig) {
			r.reference()
			for i, name := range r.names {
				time.AfterFunc(time.Duration(i)*time.Millisecond, func() { r.DeleteReference(namespace, name, "pod") })
			}
		},
	}
	slow := func(r *parkedRig, _ *rest.Config) {
		r.transform = func(secret *corev1.Secret) *corev1.Secret { time.Sleep(time.Millisecond); return secret }
		r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { time.Sleep(time.Millisecond); return nil })
		r.network.OnDial(func(int) network.Dial { time.Sleep(time.Millisecond); return nil })
	}
	for name, begin := range tests {
		t.Run(name, func(t *testing.T) {
			for moment := range 14 {
				inParkedBubble(t, 6, apiserver.Options{}, slow, func(t *testing.T, r *parkedRig) {
					begin(r)
					time.Sleep(time.Duration(moment) * time.Millisecond / 2)
					start := time.Now()
					r.stop()
					if took := time.Since(start); took > 10*time.Millisecond {
						t.Errorf("moment %d: Run ended after %v, want at once", moment, took)
					}
					r.wantNothingOpen(fmt.Sprintf("Run was stopped at moment %d", moment))
				})
			}
		})
	}
}
