// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
)

// largeObjects is among how many objects half are so large that a broken stream of them is resumed without a read
// of the object.
const largeObjects = 30

// Object is an object that owners reference, and its state on the server.
type Object struct {
	history.Object

	Index int
	Kind  int // the index of the kind and of the subject
	Key   types.NamespacedName

	// unwatched is set while the subject may have no stream of the object, although there are references: it was
	// immutable since its first reference. Then a change arrives with the next new owner.
	unwatched bool
	owners    int // how many reference it
	// misledUntil is when the server reports no version of a state that it has not sent, unless there is a fault.
	misledUntil time.Time
	// requests are those of the subjects that have begun. streams are those that are open, and restores is how many
	// restores there had been when the newest of them was opened.
	requests, streams, restores atomic.Int64
	// listed is one more than the restores that there had been when a list of the object was answered, and zero after
	// the next WatchList. gap lasts while a stream is open, and a restore has parted the newest one from its list: that
	// need not be noticed. See docs/promises.md, "What is not promised".
	listed atomic.Int64
	gap    atomic.Pointer[history.Call]

	mu        sync.Mutex
	additions int       // of references, so far
	notBefore time.Time // the server asked for no request before, when there were so many additions
	throttled int
	askedAt   time.Time // when it asked

	exists bool
	state  history.State // on the server
}

func (o *Object) String() string { return fmt.Sprintf("object %d (%s)", o.Index, o.Name()) }

// current returns the state on the server.
func (o *Object) current() (state history.State, exists bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state, o.exists
}

// notices reports whether the subject must notice each change of the object.
func (o *Object) notices() bool { return !o.unwatched && o.gap.Load() == nil }

func (o *Object) set(state history.State, exists bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state, o.exists = state, exists
}

// added counts an addition of a reference. A new reference may need another stream, which nothing has throttled yet.
func (o *Object) added() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.additions++
}

// put creates or updates an object. An immutable object is deleted and created again.
func (w *World) put(o *Object, immutable bool) {
	k := w.kinds[o.Kind]
	immutable = immutable && k.immutable
	state, exists := o.current()
	if exists && state.Immutable {
		w.remove(o)
		exists = false
	}
	w.contents++
	content := fmt.Sprint(w.contents, " ", w.output.value)
	if o.Index/3%2 == 1 && o.Index < largeObjects {
		content += strings.Repeat(" ", w.settings.size)
	}
	// A server records them, and streams of large objects resume by them. No manager writes before and after a restore:
	// see docs/promises.md, "What is not promised".
	now, manager := metav1.Now(), fmt.Sprint("model-", w.restores.Load())
	meta := metav1.ObjectMeta{
		Namespace: o.Key.Namespace, Name: o.Key.Name,
		Labels:        map[string]string{"app": "model", "parity": strconv.Itoa(w.contents % 2)},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &now}},
	}
	var err error
	if exists {
		meta.ResourceVersion = state.Version
		err = k.update(w.ctx, meta, content, immutable)
	} else {
		err = k.create(w.ctx, meta, content, immutable)
	}
	if w.options.Allowed == nil || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // a subject may have written it
		w.must(err)
	}
	o.unwatched = o.unwatched || w.isUnwatched(history.State{Immutable: immutable})
}

// isUnwatched reports whether a subject needs no stream of an object in a state.
func (w *World) isUnwatched(state history.State) bool {
	if w.settings.direct { // each Get reads
		return false
	}
	return state.Immutable && !w.settings.watch.WatchImmutable || w.settings.ttl > 0
}

// remove deletes an object.
func (w *World) remove(o *Object) {
	if _, exists := o.current(); exists {
		w.must(w.kinds[o.Kind].delete(w.ctx, o.Key.Namespace, o.Key.Name))
	}
}

// removeNamespace deletes a namespace with all its objects, and creates it again.
func (w *World) removeNamespace(namespace string) {
	w.must(w.client.CoreV1().Namespaces().Delete(w.ctx, namespace, metav1.DeleteOptions{}))
	w.createNamespace(namespace)
}

// backup is a snapshot of the server.
type backup struct {
	state   *apiserver.State
	restore history.Call
	objects []*Object // by Index
}

// snapshot makes a backup.
func (w *World) snapshot() {
	b := &backup{state: w.server.Snapshot(), restore: w.recorder.Snapshot()}
	for _, o := range w.objects {
		state, exists := o.current()
		b.objects = append(b.objects, &Object{state: state, exists: exists})
	}
	w.backup = b
}

// noStream keeps no stream in a restore.
func noStream(apiserver.Request) bool { return false }

// restore restores the server from the last backup, as of an etcd. The streams for which keep returns true stay open.
func (w *World) restore(keep func(apiserver.Request) bool) {
	b := w.backup
	for i, o := range w.objects {
		if i >= len(b.objects) { // it is newer
			o.set(history.State{}, false)
			continue
		}
		o.set(b.objects[i].current())
		o.unwatched = o.unwatched || w.isUnwatched(b.objects[i].state)
	}
	b.restore.End()
	w.server.RestoreKeeping(b.state, keep)
	w.restores.Add(1)
	w.snapshot()
	for _, namespace := range w.namespaces { // it may be gone in the backup
		w.createNamespace(namespace)
	}
}

func (w *World) createNamespace(name string) {
	_, err := w.client.CoreV1().Namespaces().Create(w.ctx, namespaceOf(name), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
}
