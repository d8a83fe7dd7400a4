// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// transformer is Options.Transform. The goroutine that owns the session under way owns arrived.
type transformer struct {
	function toolscache.TransformFunc
	arrived  moment.Moment // of what waits, at the earliest; 0 if a parked stream has nothing
	woken    atomic.Int64  // the Moment of its last Wake, 0 if a worker has seen that
	working  atomic.Int64  // the Moment since when the function works with an object, 0 if it does not
}

func newTransformer(function toolscache.TransformFunc) *transformer {
	if function == nil {
		return nil
	}
	return &transformer{function: function}
}

// transformer returns nil without Options.Transform.
func (r *Reflector) transformer() *transformer {
	if r.extra == nil {
		return nil
	}
	return r.extra.transformer
}

// call returns what the function makes of an object.
func (t *transformer) call(object any) (result runtime.Object, err error) {
	t.working.Store(int64(moment.Now()))
	defer t.working.Store(0)
	before := identityOf(object)
	made, err := t.function(object)
	if err != nil {
		return nil, transformFailed(err)
	}
	result, ok := made.(runtime.Object)
	if v := reflect.ValueOf(made); !ok || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: Transform returned no object but %T", failure.ErrStore, made)
	}
	if identityOf(made) != before {
		return nil, fmt.Errorf("%w: Transform changed the name, namespace, UID or resource version", failure.ErrStore)
	}
	return result, nil
}

// isolate calls f, which calls the function: it may panic, and end its goroutine.
func (t *transformer) isolate(f func() error) error {
	err := listwatch.Isolate(f)
	if err == nil || errors.Is(err, failure.ErrStore) || errors.Is(err, errEnded) {
		return err
	}
	return transformFailed(err)
}

// transformFailed returns the failure of a call. It is the program's: nothing that err wraps says
// something about the server, and its text may quote the object, unless it is marked.
func transformFailed(err error) error {
	switch shown := redact.Marked(err); {
	case shown == nil:
		return fmt.Errorf("%w: Transform failed with a %T", failure.ErrStore, err)
	case errors.Is(shown, failure.ErrStore):
		return programError{redact.Error(shown)}
	default:
		return fmt.Errorf("%w: Transform: %s", failure.ErrStore, redact.Error(shown)) //nolint:errorlint // not the server's
	}
}

// programError is what errors.Is finds in an error, and nothing of what errors.As does: a status.
type programError struct{ error }

func (e programError) Is(target error) bool { return errors.Is(e.error, target) }

// isWorking reports whether the function works with an object.
func (t *transformer) isWorking() bool { return t != nil && t.working.Load() != 0 }

// identityOf returns what Options.Transform must keep.
func identityOf(object any) (of struct{ namespace, name, uid, version string }) {
	if header, err := meta.Accessor(object); err == nil {
		of.namespace, of.name, of.uid, of.version = header.GetNamespace(), header.GetName(), string(header.GetUID()), header.GetResourceVersion()
	}
	return of
}

// refused returns the error of a check that refuses what the function has made.
func refused(err error) error {
	return fmt.Errorf("%w: what Transform has returned is refused: %v", failure.ErrStore, err) //nolint:errorlint // not the server's
}

// transformRead applies Options.Transform to a complete read. The session may have ended meanwhile.
func (s *session) transformRead(items []any, version string) error {
	t := s.r.transformer()
	if t == nil {
		return nil
	}
	err := t.isolate(func() error {
		for i := range items {
			object, err := t.call(items[i])
			if err != nil || s.isOver() {
				return cmp.Or(err, errEnded)
			}
			items[i] = object
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err = s.r.expected().checkAll(items); err == nil {
		err = s.r.store.checkRead(items, version)
	}
	if err != nil {
		return refused(err)
	}
	return nil
}

// transformEvent applies Options.Transform to an event, and returns when that has arrived, at the
// earliest. The session may have ended meanwhile. If it was ended for a newer read, the event is stored
// nevertheless: Transform may take as long for that read.
func (s *session) transformEvent(event *watch.Event) (arrived moment.Moment, err error) {
	now, t := moment.Now(), s.r.transformer()
	if t == nil {
		return now, nil
	}
	if !s.isParked() {
		t.arrived = now // what waits in the stream is not known
	}
	if event.Type != watch.Added && event.Type != watch.Modified {
		return t.arrived, nil
	}
	err = t.isolate(func() (err error) {
		event.Object, err = t.call(event.Object)
		return err
	})
	if s.isOver() && !s.r.progress.isRefreshed() {
		return 0, errEnded
	}
	if err != nil {
		return 0, err
	}
	if err = s.r.expected().check(event.Object); err == nil {
		err = s.r.store.check(event.Object)
	}
	if err != nil {
		return 0, refused(err)
	}
	return t.arrived, nil
}

// When an event of a parked stream has arrived. The stream calls Wake when the first event arrives
// after TryNext has found none. Those that come until TryNext finds none again may have arrived with
// it, and waited for the function. So may those that come first after the read.

// begins notes that the server has answered the read.
func (t *transformer) begins() {
	if t != nil {
		t.arrived = moment.Now()
	}
}

// woke notes a Wake.
func (t *transformer) woke() {
	if t != nil {
		t.woken.Store(int64(moment.Now()))
	}
}

// turns notes that a worker handles what the stream has.
func (t *transformer) turns() {
	if t == nil {
		return
	}
	if woken := moment.Moment(t.woken.Swap(0)); t.arrived == 0 {
		t.arrived = woken
	}
}

// drains notes that TryNext has found nothing.
func (t *transformer) drains() {
	if t != nil {
		t.arrived = 0
	}
}
