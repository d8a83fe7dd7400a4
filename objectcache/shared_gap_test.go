// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// observed is the last state of each name that a caller of Get or Changes has seen. It reports versions that go back.
type observed struct {
	t    *testing.T
	from string

	mu   sync.Mutex
	last map[string]*corev1.Secret // nil: does not exist
}

func (o *observed) see(name string, secret *corev1.Secret) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before := o.last[name]; before != nil && secret != nil {
		if order, _ := cache.CompareVersions(secret.ResourceVersion, before.ResourceVersion); order < 0 {
			o.t.Errorf("%s: %s went back from version %s to %s", o.from, name, before.ResourceVersion, secret.ResourceVersion)
		}
	}
	o.last[name] = secret
}

// forget is called for names without references: a deletion is not reported.
func (o *observed) forget(names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		delete(o.last, name)
	}
}

func (o *observed) version(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if secret := o.last[name]; secret != nil {
		return secret.ResourceVersion
	}
	return ""
}

// traffic is a writer, a caller of Changes and a caller of Get.
type traffic struct {
	*sharedRig

	names         []string
	random        *rand.Rand
	gets, changes *observed
	group         sync.WaitGroup
	stop          chan struct{}
}

func (r *sharedRig) startTraffic(names []string, seed uint64) *traffic {
	f := &traffic{
		sharedRig: r, names: names, random: rand.New(rand.NewPCG(seed, 0)), stop: make(chan struct{}),
		gets:    &observed{t: r.t, from: "Get", last: map[string]*corev1.Secret{}},
		changes: &observed{t: r.t, from: "Changes", last: map[string]*corev1.Secret{}},
	}
	f.group.Go(f.readChanges)
	f.group.Go(f.readGets)
	return f
}

func (f *traffic) readChanges() {
	for change := range f.Changes(f.t.Context()) {
		if f.changes.see(change.Key.Name, change.Object); f.stopped() {
			return
		}
	}
}

func (f *traffic) readGets() {
	for i := 0; !f.stopped(); i++ {
		time.Sleep(70 * time.Millisecond)
		name := f.names[i%len(f.names)]
		secret, err := f.TryGet(namespace, name)
		if err == nil || apierrors.IsNotFound(err) {
			f.gets.see(name, secret)
		}
	}
}

func (f *traffic) stopped() bool {
	select {
	case <-f.stop:
		return true
	default:
		return false
	}
}

// write changes, creates or deletes random objects for a time.
func (f *traffic) write(duration time.Duration) {
	secrets := f.client.CoreV1().Secrets(namespace)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		time.Sleep(time.Duration(f.random.IntN(4000)) * time.Millisecond)
		name := f.names[f.random.IntN(len(f.names))]
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		switch _, err := secrets.Update(f.t.Context(), object, metav1.UpdateOptions{}); {
		case apierrors.IsNotFound(err):
			_, _ = secrets.Create(f.t.Context(), object, metav1.CreateOptions{})
		case f.random.IntN(4) == 0:
			_ = secrets.Delete(f.t.Context(), name, metav1.DeleteOptions{})
		}
	}
}

// wantNewest checks that Get and Changes have the newest state of each name.
func (f *traffic) wantNewest(when string, names ...string) {
	f.t.Helper()
	synctest.Wait()
	list, err := f.client.CoreV1().Secrets(metav1.NamespaceAll).List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	newest := map[string]string{}
	for _, secret := range list.Items {
		newest[secret.Name] = secret.ResourceVersion
	}
	for _, name := range names {
		got, err := f.get(name, 5*time.Second)
		if newest[name] == "" && !apierrors.IsNotFound(err) || newest[name] != "" && (err != nil || got.ResourceVersion != newest[name]) {
			f.t.Errorf("%s: Get %s: got %v, %v, want version %q", when, name, got, err, newest[name])
		}
		if got := f.changes.version(name); got != newest[name] {
			f.t.Errorf("%s: Changes, %s: got version %q, want %q", when, name, got, newest[name])
		}
	}
}

func (f *traffic) end() {
	close(f.stop)
	f.AddReference(namespace, "last", "pod") // Changes yields it, and so ends
	f.create("last")
	f.group.Wait()
}

// Objects pass from their own streams to the shared one and back, thousands of times, while others write. Get and
// Changes see each final state, and no version goes back.
func TestSharedSwitchesWithoutAGap(t *testing.T) {
	const lasting, coming = 15, 17
	cycles := fewer(100)
	inSharedBubble(t, sharedOptions(lasting+coming), func(t *testing.T, r *sharedRig) {
		all := names(lasting + coming)
		r.createAll(all...)
		r.reference(all[:lasting]...)
		f := r.startTraffic(all, 1)
		switches := 0
		for range cycles {
			r.reference(all[lasting:]...)
			f.write(time.Duration(f.random.IntN(300)) * time.Second)
			if f.random.IntN(3) == 0 {
				r.closeShared()
			}
			f.write(time.Duration(f.random.IntN(60)) * time.Second)
			switches += r.countPhase(servingShared, all[:lasting])
			f.wantNewest("above the threshold", all...)
			r.dereference(all[lasting:]...)
			f.changes.forget(all[lasting:])
			f.write(time.Second)
			f.wantNewest("below the threshold", all[:lasting]...)
		}
		f.end()
		if most := cycles * lasting; switches < most*2/3 {
			t.Errorf("switches: got %d each way, want most of %d", switches, most)
		}
	})
}

// An object joins the shared stream only when that is not behind its own. Otherwise a later read
// of the shared stream may be older than the state.
func TestSharedStreamBehindAnObject(t *testing.T) {
	inSharedBubble(t, sharedOptions(3), func(t *testing.T, r *sharedRig) {
		r.createAll(names(3)...)
		r.reference(names(3)...)
		time.Sleep(joined)
		r.wantStreams("joined", 1, 0)
		bookmark := func(version string) {
			r.server.Send(isShared, watch.Event{Type: watch.Bookmark, Object: &corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
			}})
			synctest.Wait()
		}
		r.server.Rewrite(apiserver.Rewriter{Event: func(_ context.Context, request apiserver.Request, event watch.Event) []watch.Event {
			if isShared(request) {
				return nil
			}
			return []watch.Event{event}
		}})
		before := r.version(names(3)[2])
		r.createAll("late")
		r.reference("late")
		bookmark(before)
		r.wantPhase("with a bookmark from before the object", servingNamed, "late")
		bookmark(r.version("late"))
		r.wantPhase("with a bookmark at its version", servingShared, "late")
	})
}

// countPhase returns how many of the names are in a phase.
func (r *sharedRig) countPhase(phase objectcache.Phase, names []string) (count int) {
	for _, name := range names {
		if r.phase(name) == phase {
			count++
		}
	}
	return count
}

// A server that is rolled back, compacted or cut off is noticed by the shared stream as by others.
func TestSharedFaultsWithoutAGap(t *testing.T) {
	inSharedBubble(t, sharedOptions(6), func(t *testing.T, r *sharedRig) {
		all := names(12)
		r.createAll(all...)
		r.reference(all...)
		f := r.startTraffic(all, 2)
		for range fewer(100) {
			f.write(time.Duration(f.random.IntN(200)) * time.Second)
			switch f.random.IntN(5) {
			case 0:
				r.closeShared()
			case 1:
				r.server.CloseStreams(nil)
			case 2:
				r.server.Compact()
				r.server.CloseStreams(nil)
			case 3:
				r.refused.Store(&forbidden().ErrStatus)
				r.closeShared()
			case 4:
				r.refused.Store(nil)
			}
			f.write(time.Duration(f.random.IntN(20)) * time.Second)
			time.Sleep(5 * time.Second)
			f.wantNewest("after a fault", all...)
		}
		f.end()
	})
}

// After a rollback Get and Changes have the state of the server, whichever stream an object has.
func TestSharedRollback(t *testing.T) {
	inSharedBubble(t, sharedOptions(6), func(t *testing.T, r *sharedRig) {
		all := names(12)
		r.createAll(all...)
		r.reference(all[:8]...)
		time.Sleep(joined)
		sub := r.subscribe()
		defer sub.stop()
		for i := range 20 {
			before := r.server.Snapshot()
			r.update(all[0], "lost")
			r.remove(all[1])
			r.create("later")
			if i%2 == 1 {
				r.reference(all[8:]...) // they are about to join
				time.Sleep(time.Duration(i) * 10 * time.Second)
			}
			sub.seen()
			r.server.Restore(before)
			time.Sleep(3 * time.Minute)
			r.wantValues("rolled back", "0", all[:8]...)
			if got := sub.seen(); len(got) != 2 {
				t.Errorf("changes: got %q, want the two objects that were rolled back", got)
			}
			r.update(all[2], "new")
			r.wantValues("after the rollback", "new", all[2])
			want(t, "changes after the rollback", sub.seen(), all[2]+"=new")
			r.update(all[2], "0")
			sub.seen()
			r.dereference(all[8:]...)
			time.Sleep(joined)
			r.wantPhase("after the rollback", servingShared, all[:8]...)
		}
	})
}

// After a rollback during which the shared stream is refused, the first read of a stream of its own proves the
// rollback.
func TestSharedRollbackAndARefusal(t *testing.T) {
	inSharedBubble(t, sharedOptions(6), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		r.wantPhase("before", servingShared, all...)
		before := r.server.Snapshot()
		for range 20 {
			r.update(all[0], "lost")
			r.update(all[0], "lost, too")
		}
		r.refused.Store(&forbidden().ErrStatus)
		r.server.Restore(before)
		time.Sleep(time.Minute)
		r.wantPhase("refused", servingNamed, all...)
		r.wantValues("refused", "0", all...)
	})
}

// Many references among many objects cost one stream.
func TestSharedManyForeignObjects(t *testing.T) {
	manyStreams(t)
	if testing.Short() {
		t.Skip("10,000 objects")
	}
	inSharedBubble(t, sharedOptions(0), func(t *testing.T, r *sharedRig) {
		all := names(10000)
		for _, name := range all {
			object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			if _, err := r.client.CoreV1().Secrets(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range all[:1000] {
			r.AddReference(namespace, name, types.UID("pod"))
		}
		for _, name := range all[:1000] {
			r.mustGet(name)
		}
		time.Sleep(joined)
		r.wantStreams("joined", 1, 0)
		for _, name := range append(all[:50:50], all[5000:5050]...) {
			r.update(name, "1")
		}
		r.wantValues("changed", "1", all[:50]...)
		if _, err := r.get(all[5000], time.Second); err == nil {
			t.Error("Get of an object without references: got no error")
		}
	})
}
