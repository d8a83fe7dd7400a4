// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The phase is what a Get returns that cannot wait, in each strategy, whatever happens to the object, its owners and
// the server. HasSynced, Status.Synced, NotUpdatedSince and ChangedAt agree with it.
func TestPhaseIsWhatGetReturns(t *testing.T) {
	ttl := objectcache.TTLOptions{TTL: 20 * time.Second, NotFoundTTL: 5 * time.Second}
	bounded := ttl
	bounded.MaxStaleness = 40 * time.Second
	for name, options := range map[string]objectcache.StoreOptions{
		"watch":            objectcache.WatchOptions{ImmutableRecheck: time.Minute},
		"bounded age":      objectcache.WatchOptions{MaxStaleness: 90 * time.Second, ImmutableRecheck: time.Minute},
		"idle":             objectcache.WatchOptions{IdleTimeout: 20 * time.Second, MaxStaleness: 2 * time.Minute},
		"TTL":              ttl,
		"TTL, bounded age": bounded,
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[objectcache.Phase]int{}
			for seed := range uint64(max(2, fewer(4))) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, apiserver.Options{InMemory: true, DisableWatchList: seed%2 == 1}, options)
					r.run()
					w := &phaseWalk{rig: r, random: rand.New(rand.NewPCG(seed, 1)), seen: seen}
					w.run(400)
					r.stop()
				})
			}
			for _, phase := range objectcache.Phases()[:5] {
				if seen[phase] == 0 {
					t.Errorf("no step has led to the phase %s: got %v", phase, seen)
				}
			}
		})
	}
}

// phaseWalk does random steps with an object, and checks its status after each.
type phaseWalk struct {
	*rig

	random *rand.Rand
	seen   map[objectcache.Phase]int
	exists bool
	sealed bool   // it is immutable
	open   func() // lets requests that hang pass; nil if none do
	steps  []string

	last    objectcache.Status // the last of a known state
	checked time.Time          // when that was
}

func (w *phaseWalk) run(steps int) {
	for range steps {
		w.steps = append(w.steps, w.step())
		w.check()
		if w.t.Failed() {
			w.t.Fatalf("after the steps %q", w.steps[max(0, len(w.steps)-40):])
		}
	}
	w.heal()
}

// heal makes the server answer.
func (w *phaseWalk) heal() {
	w.refuse(nil)
	if w.open != nil {
		w.open()
		w.open = nil
	}
	w.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if slices.Contains([]string{"watch", "list", "get"}, request.Verb) {
			return w.down.Load()
		}
		return nil
	})
}

func (w *phaseWalk) step() string {
	owner := types.UID(fmt.Sprint("pod-", w.random.IntN(3)))
	switch w.random.IntN(16) {
	case 0, 1:
		w.AddReference(namespace, "tls", owner)
		return "reference of " + string(owner)
	case 2:
		w.dropOwners(1 + w.random.IntN(3))
		return "owners gone"
	case 3, 4:
		return w.write()
	case 5, 6:
		err := unavailable()
		if w.random.IntN(2) == 0 {
			err = forbidden()
		}
		w.refuse(err)
		w.server.CloseStreams(nil)
		return "refused"
	case 7:
		w.heal()
		w.open = w.holdBack("watch", "list", "get")
		w.server.CloseStreams(nil)
		return "hangs"
	case 8:
		w.heal()
		w.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "watch" {
				return &unavailable().ErrStatus
			}
			return nil
		})
		w.server.CloseStreams(nil)
		return "watches refused"
	case 9, 10:
		w.heal()
		return "healed"
	case 11:
		w.server.CloseStreams(nil)
		return "streams closed"
	case 12:
		_, _ = w.get("tls", 100*time.Millisecond)
		return "Get"
	case 13:
		w.dropOwners(3)
		w.AddReference(namespace, "tls", owner)
		return "first reference of " + string(owner)
	}
	pause := time.Duration(w.random.IntN(70_000)) * time.Millisecond
	if w.random.IntN(2) == 0 {
		pause /= 100
	}
	time.Sleep(pause)
	return pause.String()
}

// dropOwners deletes references of n owners; 3 are all.
func (w *phaseWalk) dropOwners(n int) {
	for i := range n {
		w.DeleteReference(namespace, "tls", types.UID(fmt.Sprint("pod-", i)))
	}
	if _, referenced := w.Status(namespace, "tls"); !referenced {
		w.last = objectcache.Status{}
	}
}

// write creates the object, or changes or deletes it. Only one that is not immutable changes.
func (w *phaseWalk) write() string {
	switch {
	case !w.exists && w.random.IntN(3) == 0:
		w.exists, w.sealed = true, true
		w.create("tls", immutable)
		return "created, immutable"
	case !w.exists:
		w.exists, w.sealed = true, false
		w.create("tls")
		return "created"
	case w.sealed || w.random.IntN(2) == 0:
		w.exists = false
		w.remove("tls")
		return "deleted"
	}
	w.update("tls", "new")
	return "changed"
}

// check compares the status with what a Get returns at the same moment.
func (w *phaseWalk) check() {
	synctest.Wait()
	status, referenced := w.Status(namespace, "tls")
	if got := w.HasSynced(namespace, "tls"); got != status.Synced {
		w.t.Errorf("HasSynced is %v, and the status is %+v", got, status)
	}
	get := w.TryGet
	if w.random.IntN(2) == 0 {
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		get = func(namespace, name string) (*corev1.Secret, error) { return w.Get(ctx, namespace, name) }
	}
	object, err := get(namespace, "tls")
	if !referenced {
		if !errors.Is(err, objectcache.ErrNotRegistered) {
			w.t.Errorf("without a reference: got %v", err)
		}
		w.last = objectcache.Status{}
		return
	}
	w.seen[status.Phase]++
	served := err == nil || apierrors.IsNotFound(err)
	switch status.Phase {
	case objectcache.PhaseServing, objectcache.PhaseNotUpdated:
		if err != nil || object.UID != status.UID || object.ResourceVersion != status.ResourceVersion {
			w.t.Errorf("a Get returns %v, %v, and the status is %+v", object, err, status)
		}
	case objectcache.PhaseAbsent:
		if !apierrors.IsNotFound(err) {
			w.t.Errorf("a Get returns %v, and the status is %+v", err, status)
		}
	default:
		if !errors.Is(err, objectcache.ErrNotSynced) || served {
			w.t.Errorf("a Get returns %v, and the status is %+v", err, status)
		}
	}
	lapsed := status.Phase != objectcache.PhaseAbsent && status.Reason == objectcache.ReasonOnDemand && !status.Exists
	if status.Synced && !served && !lapsed {
		w.t.Errorf("a Get returns %v, and the status is synced: %+v", err, status)
	}
	w.checkTimes(status)
}

// checkTimes checks NotUpdatedSince and ChangedAt.
func (w *phaseWalk) checkTimes(status objectcache.Status) {
	since, at := status.NotUpdatedSince, status.ChangedAt
	if isNotUpdated := !since.IsZero(); status.Phase == objectcache.PhaseServing && isNotUpdated || status.Phase == objectcache.PhaseNotUpdated && !isNotUpdated {
		w.t.Errorf("not updated since %v in phase %s", since, status.Phase)
	}
	if !since.IsZero() && (since.Before(status.LastContact) || since.After(time.Now())) {
		w.t.Errorf("not updated since %v, the last contact was %v", since, status.LastContact)
	}
	open := w.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: "tls"}) > 0
	if isSettled := status.Failures == 0 && status.Waiting == nil && status.AskedAt.IsZero(); open && isSettled && !since.IsZero() {
		w.t.Errorf("not updated since %v, and a stream is open: %+v", since, status)
	}
	if status.LastContact.IsZero() || at.IsZero() {
		w.last = objectcache.Status{}
		return
	}
	same := status.Exists == w.last.Exists && status.UID == w.last.UID && status.ResourceVersion == w.last.ResourceVersion
	if known := !w.last.ChangedAt.IsZero(); at.After(time.Now()) || known && (same && !at.Equal(w.last.ChangedAt) || !same && at.Before(w.checked)) {
		w.t.Errorf("changed at %v, before that it was %v; the state is the same: %v", at, w.last.ChangedAt, same)
	}
	w.last, w.checked = status, time.Now()
}
