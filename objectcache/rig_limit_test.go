// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// pollBound is the documented age of the state of a polled object, for up to 1,500 of
// them, and a moment for the read.
const pollBound = 30*time.Second + 100*time.Millisecond

// limitRig is a store with MaxStreams and many objects. It checks all the time that no
// more streams are open.
type limitRig struct {
	*rig

	names []string
}

// inLimitBubble runs f with a store of n referenced objects, which have synced.
func inLimitBubble(t *testing.T, n int, options objectcache.WatchOptions, f func(*testing.T, *limitRig)) {
	t.Helper()
	inBubble(t, options, func(t *testing.T, r *rig) {
		l := &limitRig{rig: r}
		check := l.checkStreams(options.MaxStreams)
		for i := range n {
			name := fmt.Sprint("tls-", i)
			l.names = append(l.names, name)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			if _, err := r.client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.AddReference(namespace, name, "pod")
		}
		for _, name := range l.names {
			l.mustGetWithin(name, time.Minute)
		}
		f(t, l)
		r.stop()
		check()
	})
}

// checkStreams begins to observe how many watches are open on the server.
func (l *limitRig) checkStreams(most int) (end func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	peak := 0
	var observer sync.WaitGroup
	observer.Go(func() {
		_ = l.server.WaitFor(ctx, func() bool { peak = max(peak, l.server.TotalStreams()); return false })
	})
	return func() {
		cancel()
		observer.Wait()
		if peak > most {
			l.t.Errorf("open watches: got %d at a time, want at most %d", peak, most)
		}
	}
}

// phases returns how many objects are in each phase.
func (l *limitRig) phases() map[objectcache.Phase]int {
	synctest.Wait()
	count := map[objectcache.Phase]int{}
	for status := range l.Statuses() {
		count[status.Phase]++
	}
	return count
}

// requests returns how many requests with that verb were sent so far.
func (l *limitRig) requests(verb string) int {
	synctest.Wait()
	count := 0
	for _, request := range l.server.Requests() {
		if request.Verb == verb {
			count++
		}
	}
	return count
}

// updateAll gives objects a value.
func (l *limitRig) updateAll(value string, names ...string) {
	l.t.Helper()
	for _, name := range names {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
		if _, err := l.client.CoreV1().Secrets(namespace).Update(l.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// wantValues checks what Get returns from memory for each object.
func (l *limitRig) wantValues(when, value string, names ...string) {
	l.t.Helper()
	old := 0
	for _, name := range names {
		if got, err := l.TryGet(namespace, name); err != nil || string(got.Data["password"]) != value {
			old++
		}
	}
	if old > 0 {
		l.t.Errorf("%s: %d of %d objects do not have the value %q", when, old, len(names), value)
	}
}
