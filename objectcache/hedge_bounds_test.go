// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// After the last reference nothing that a hedged read has left behind refers to the object.
func TestHedgedReadIsFreedAfterTheLastReference(t *testing.T) {
	freed := make(chan struct{}) // outside the bubble, as cleanups are
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.slowOpenings(95 * time.Millisecond)
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.closeWhenFreed("tls", freed)
		r.DeleteReference(namespace, "tls", "pod")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		collect(t, freed)
	})
}

// An owner that comes while the opening hangs takes the state from nobody: Gets return the
// previous state after 1.5 s, or one that was read for that owner, and TryGet returns it at once.
func TestHedgedReadAndANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.slowOpenings(time.Hour)
		r.AddReference(namespace, "tls", "first")
		r.mustGet("tls")
		r.AddReference(namespace, "tls", "second")
		if _, err := r.TryGet(namespace, "tls"); err != nil {
			t.Errorf("TryGet: got %v, want the state that the first owner has", err)
		}
		began := time.Now()
		if _, err := r.get("tls", 10*time.Minute); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("Get: took %v, and got %v, want the object within 5 s", time.Since(began), err)
		}
	})
}

// A client may list and get, and not watch: what Get has returned stays.
func TestHedgedReadWhoseWatchIsForbidden(t *testing.T) {
	for _, options := range []apiserver.Options{{InMemory: true}, {InMemory: true, DisableWatchList: true}} {
		t.Run(fmt.Sprint("WatchList ", !options.DisableWatchList), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, options, objectcache.WatchOptions{})
				r.run()
				defer r.stop()
				r.server.Authorize(func(request apiserver.Request) bool { return request.Verb != "watch" })
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb != "get" {
						sleepFor(ctx, 50*time.Millisecond)
					}
					return nil
				})
				r.create("tls")
				s := r.subscribe()
				defer s.stop()
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls")
				for range 300 {
					time.Sleep(10 * time.Millisecond)
					if _, err := r.TryGet(namespace, "tls"); err != nil {
						t.Errorf("got %v, want the object that Get has returned", err)
						break
					}
				}
				time.Sleep(time.Minute)
				r.mustGet("tls")
				want(t, "changes", s.seen(), "tls="+canary)
			})
		})
	}
}

// The state of a GET and the same one of the stream are one: Changes yields it once.
func TestHedgedReadAndTheOpeningAreOneChange(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"plain":     func(*corev1.Secret) {},
		"immutable": immutable,
		"metadata": func(s *corev1.Secret) {
			s.Labels, s.Annotations, s.Finalizers = map[string]string{}, map[string]string{"a": ""}, []string{}
			s.Data["empty"] = []byte{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.slowOpenings(95 * time.Millisecond)
				s := r.subscribe()
				defer s.stop()
				r.create("tls", change)
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls")
				time.Sleep(time.Minute)
				want(t, "changes", s.seen(), "tls="+canary)
			})
		})
	}
}

// A GET beside the first read has brought an object. Then the server is restored from a backup without it. A Get whose
// read begins after that does not return the object that is lost.
func TestReadBehindAHedgedRead(t *testing.T) {
	for name, get := range map[string]func(*rig) (*corev1.Secret, error){
		"live": func(r *rig) (*corev1.Secret, error) { return r.demand("tls", objectcache.GetOptions{Live: true}) },
		"age": func(r *rig) (*corev1.Secret, error) {
			time.Sleep(20 * time.Millisecond)
			return r.demand("tls", objectcache.GetOptions{MaxStaleness: 10 * time.Millisecond})
		},
		"new owner": func(r *rig) (*corev1.Secret, error) {
			r.AddReference(namespace, "tls", "new")
			return r.get("tls", 10*time.Second)
		},
		"first Get of another reference": func(r *rig) (*corev1.Secret, error) {
			r.DeleteReference(namespace, "tls", "pod")
			r.AddReference(namespace, "tls", "pod")
			return r.get("tls", 10*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				backup := r.server.Snapshot()
				r.create("tls")
				gate := make(chan struct{})
				r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "get" {
						return nil
					}
					<-gate
					return &unavailable().ErrStatus
				})
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls") // by the GET
				r.server.Restore(backup)
				close(gate)
				synctest.Wait()
				r.server.Intercept(nil)
				time.Sleep(time.Millisecond) // the failure is of before a new owner
				if got, err := get(r); !apierrors.IsNotFound(err) {
					t.Errorf("got %v, %v, want NotFound: the read began after the restore", got, err)
				}
				time.Sleep(time.Minute)
				if got, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
					t.Errorf("a minute later: got %v, %v, want NotFound", got, err)
				}
			})
		})
	}
}

// A GET that hangs ends with the last reference, and says nothing about GETs of other objects.
func TestHedgedReadEndsWithTheLastReference(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		var begun, ended atomic.Int32
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			switch {
			case request.Verb != "get":
				sleepFor(ctx, 95*time.Millisecond)
			case request.Name == "tls":
				begun.Add(1)
				<-ctx.Done()
				ended.Add(1)
			}
			return nil
		})
		r.createAll("tls", "other")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		if begun.Load() != 1 || ended.Load() != 0 {
			t.Fatalf("got %d GETs, of which %d have ended, want one that has not", begun.Load(), ended.Load())
		}
		r.DeleteReference(namespace, "tls", "pod")
		synctest.Wait()
		if ended.Load() != 1 {
			t.Error("the GET of an object without a reference goes on, want its end")
		}
		r.AddReference(namespace, "other", "pod")
		r.mustGetWithin("other", 5*time.Millisecond)
	})
}
