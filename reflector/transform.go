// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/moment"
	"github.com/refwatch/refwatch/reflector/internal/redact"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// transformer is Options.Transform. Its moments belong to the goroutine that owns the session under
// way.
type transformer struct {
	function toolscache.TransformFunc
	arrived  moment.Moment // when the stream last brought something after it had nothing
	waiting  moment.Moment // since when the session has waited for the next event, 0 if it does not
	working  atomic.Int64  // the Moment since when the function has worked with an event, 0 if it does not
}

// streamPause tells an event that has just arrived from one that was there before: the session has
// waited for it at least as long.
const streamPause = time.Millisecond

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

// call returns what the function makes of an object. A failure is the program's: it says nothing
// about the server, and its text may quote the object.
func (t *transformer) call(object any) (result runtime.Object, err error) {
	before := identityOf(object)
	made, err := t.run(object)
	if err != nil {
		shown := redact.Marked(err)
		switch {
		case shown == nil:
			return nil, fmt.Errorf("%w: Transform failed with a %T", failure.ErrStore, err)
		case !errors.Is(shown, failure.ErrStore):
			return nil, fmt.Errorf("%w: Transform: %s", failure.ErrStore, shown.Error())
		}
		return nil, shown
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

// run calls the function on a goroutine of its own, which it may end.
func (t *transformer) run(object any) (made any, err error) {
	err = errExited
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		var failed error
		if panicked := listwatch.CatchPanic(func() { made, failed = t.function(object) }); panicked != nil {
			failed = redact.Loggable(panicked)
		}
		err = failed
	}()
	<-returned
	return made, err
}

// workingSince returns since when the function has worked with an event, zero if it does not.
func (t *transformer) workingSince() time.Time { return moment.Moment(t.working.Load()).Time() }

var errExited = redact.Loggable(errors.New("it has ended its goroutine, as runtime.Goexit does"))

// identityOf returns what Options.Transform must keep.
func identityOf(object any) (of struct{ namespace, name, uid, version string }) {
	if header, err := meta.Accessor(object); err == nil {
		of.namespace, of.name, of.uid, of.version = header.GetNamespace(), header.GetName(), string(header.GetUID()), header.GetResourceVersion()
	}
	return of
}

// refused returns the error of a store that refuses what the function has made.
func refused(err error) error {
	return fmt.Errorf("%w: what Transform has returned is refused: %v", failure.ErrStore, err) //nolint:errorlint // not the server's
}

// transformRead applies Options.Transform to a complete read. The session may have ended meanwhile.
func (s *session) transformRead(items []any, version string) error {
	t := s.r.transformer()
	if t == nil {
		return nil
	}
	t.arrived, t.waiting = moment.Now(), 0
	for i := range items {
		object, err := t.call(items[i])
		if s.isOver() {
			return errEnded
		}
		if err != nil {
			return err
		}
		items[i] = object
	}
	if err := s.r.store.checkRead(items, version); err != nil {
		return refused(err)
	}
	return nil
}

// transformEvent applies Options.Transform to an event, and returns when that has arrived, at the
// earliest. The session may have ended meanwhile.
func (s *session) transformEvent(event *watch.Event) (arrived moment.Moment, err error) {
	now, t := moment.Now(), s.r.transformer()
	if t == nil {
		return now, nil
	}
	if t.waiting != 0 && t.waiting.Since() >= streamPause {
		t.arrived = now
	}
	t.waiting = 0
	if event.Type != watch.Added && event.Type != watch.Modified {
		return t.arrived, nil
	}
	t.working.Store(int64(now))
	event.Object, err = t.call(event.Object)
	t.working.Store(0)
	if s.isOver() {
		return 0, errEnded
	}
	if err != nil {
		return 0, err
	}
	if err := s.r.store.check(event.Object); err != nil {
		return 0, refused(err)
	}
	return t.arrived, nil
}

// waits notes that the session waits for the next event.
func (s *session) waits() {
	if t := s.r.transformer(); t != nil && t.waiting == 0 {
		t.waiting = moment.Now()
	}
}
