// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/test/storetest"
)

// FuzzEvents runs a reflector against a server whose answers are any sequence of events,
// bookmarks, lists and errors. Before each request the slot must hold what a model
// expects of the answers so far. When the script is over the server is well, and within
// a minute the slot must hold its state.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{0, 1, 5, 0, 0, 6, 0, 7, 1, 0, 8, 1, 2, 9, 0, 0, 10, 0})
	f.Add([]byte{1, 200, 5, 0, 1, 6, 0, 7, 0, 0, 3, 4, 4, 6, 6, 5, 5, 2, 2, 1, 1})
	for i := range uint64(60) {
		random, script := rand.New(rand.NewPCG(i, 0)), make([]byte, 150)
		for j := range script {
			script[j] = byte(random.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := &scriptedServer{t: t, bytes: b[:min(len(b), 200)], slot: newSecretSlot(), expected: newSecretSlot()}
			if s.next()%2 == 0 {
				blockStreams(t)
			}
			startWith(t, s, acceptingSlot{s.slot, t}, reflector.Options{})
			// An answer has at least a byte, and the longest back-off is 15 s. The longest
			// Retry-After of the script, and a silent stream, are shorter than ten minutes.
			after(time.Hour)
			s.compare("at the end")
			after(time.Minute)
			if got := s.slot.Load(); len(s.bytes) > 0 || !s.isCurrent(got) {
				t.Errorf("a minute after the last fault: got %s and %d bytes of the script left, want the state of the server",
					describe(got), len(s.bytes))
			}
		})
	})
}

// scriptedServer is a source whose answers come from bytes, and the model of a reflector:
// it feeds the slot expected with what is acceptable.
type scriptedServer struct {
	t        *testing.T
	bytes    []byte
	slot     *storetest.Slot[*corev1.Secret] // of the reflector
	expected *storetest.Slot[*corev1.Secret]
	seen     string // the highest version that the reflector has seen in this epoch
}

// wellVersion and wellObject are the state of the server once the script is over. They
// are newer than all numbers of the script but one, of a server that was rolled back.
const wellVersion = "40"

func wellObject() *corev1.Secret { return objectOf("30", 0, 7) }

func (s *scriptedServer) isCurrent(state states.State[*corev1.Secret]) bool {
	want := wellObject()
	return state.Synced && state.Exists && state.ResourceVersion == want.ResourceVersion &&
		state.Object.UID == want.UID && state.Object.Data["a"][0] == want.Data["a"][0]
}

// compare checks that the slot holds what the model does.
func (s *scriptedServer) compare(when string) {
	s.t.Helper()
	if got, want := describe(s.slot.Load()), describe(s.expected.Load()); got != want {
		s.t.Errorf("%s: got %s, want %s", when, got, want)
	}
}

// acceptingSlot fails the test if anything that is foreign or malformed reaches the slot.
type acceptingSlot struct {
	*storetest.Slot[*corev1.Secret]
	t *testing.T
}

func (s acceptingSlot) accepts(what string, err error) {
	if err != nil {
		s.t.Errorf("%s: the slot does not accept it: %v", what, err)
	}
}

func (s acceptingSlot) Add(object any) error {
	s.accepts("added", s.Check(object.(runtime.Object)))
	return s.Slot.Add(object)
}

func (s acceptingSlot) Update(object any) error {
	s.accepts("modified", s.Check(object.(runtime.Object)))
	return s.Slot.Update(object)
}

func (s acceptingSlot) Delete(object any) error {
	s.accepts("deleted", s.Check(object.(runtime.Object)))
	return s.Slot.Delete(object)
}

func (s acceptingSlot) Bookmark(version string) error {
	s.accepts("bookmark", states.CheckVersion(version))
	return s.Slot.Bookmark(version)
}

func (s acceptingSlot) Replace(items []any, version string) error {
	s.accepts("read", s.CheckRead(items, version))
	return s.Slot.Replace(items, version)
}

func describe(s states.State[*corev1.Secret]) string {
	text := fmt.Sprintf("epoch %d, synced %t, version %q", s.Epoch, s.Synced, s.ResourceVersion)
	if s.Exists {
		text += fmt.Sprintf(", UID %s, data %d", s.Object.UID, s.Object.Data["a"])
	}
	return text
}

func (s *scriptedServer) next() (b byte) {
	if len(s.bytes) > 0 {
		b, s.bytes = s.bytes[0], s.bytes[1:]
	}
	return b
}

func (s *scriptedServer) version() string {
	b := s.next()
	odd := []string{"", "0", "x", "07", "-3", "18446744073709551616"}
	if int(b) >= 256-len(odd) {
		return odd[255-b]
	}
	return strconv.Itoa(int(b % 24))
}

func objectOf(version string, uid, data byte) *corev1.Secret {
	object := secret(version)
	object.UID, object.Data = types.UID([]string{"one", "two"}[uid%2]), map[string][]byte{"a": {data}}
	return object
}

// object returns an object, mostly that of the selection.
func (s *scriptedServer) object() runtime.Object {
	b, object := s.next(), objectOf(s.version(), s.next(), s.next()%3)
	switch b {
	case 255:
		return nil
	case 254:
		return (*corev1.Secret)(nil)
	case 253:
		return &metav1.Status{Status: metav1.StatusFailure, Code: int32(s.next()) * 3}
	case 252:
		return &corev1.ConfigMap{ObjectMeta: object.ObjectMeta}
	case 251:
		object.Name = "other"
	case 250:
		object.Namespace = "other"
	}
	return object
}

// event returns an event. ok is false if a reflector cannot use it.
func (s *scriptedServer) event() (event watch.Event, ok bool) {
	switch b := s.next(); {
	case b < 80:
		event.Type, event.Object = watch.Added, s.object()
	case b < 140:
		event.Type, event.Object = watch.Modified, s.object()
	case b < 180:
		event.Type, event.Object = watch.Deleted, s.object()
	case b < 240:
		event = bookmark(s.version(), b%2 == 0)
		return event, states.CheckVersion(bookmarkVersion(event)) == nil
	case b < 245:
		event.Type, event.Object = watch.Bookmark, s.object()
		object, isSecret := event.Object.(*corev1.Secret)
		config, isConfig := event.Object.(*corev1.ConfigMap)
		ok = isSecret && object != nil && states.CheckVersion(object.ResourceVersion) == nil ||
			isConfig && states.CheckVersion(config.ResourceVersion) == nil
		return event, ok
	case b < 250:
		return errorEvent(s.status()), false
	default:
		event.Type, event.Object = watch.EventType([]string{"", "ERROR", "Added", "DELETED ", "TABLE", "ERROR"}[b-250]), s.object()
		return event, false
	}
	object, isSecret := event.Object.(*corev1.Secret)
	return event, isSecret && object != nil && object.Name == key.Name && object.Namespace == key.Namespace &&
		states.CheckVersion(object.ResourceVersion) == nil
}

func bookmarkVersion(event watch.Event) string {
	header, err := meta.Accessor(event.Object)
	if err != nil {
		return ""
	}
	return header.GetResourceVersion()
}

func endsInitial(event watch.Event) bool {
	object, ok := event.Object.(*corev1.Secret)
	return ok && event.Type == watch.Bookmark && object.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

// status returns an error of the server: any code, with any Retry-After up to a minute.
func (s *scriptedServer) status() *apierrors.StatusError {
	codes := []int32{400, 401, 403, 404, 405, 408, 410, 429, 500, 503, 504, 0, -1, 200}
	reasons := []metav1.StatusReason{"", metav1.StatusReasonExpired, metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, "Odd"}
	b, c := s.next(), s.next()
	err := tooLargeStatus()
	if b < 200 {
		err.ErrStatus = metav1.Status{Code: codes[int(b)%len(codes)], Reason: reasons[int(c)%len(reasons)]}
		if c > 128 {
			err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(c%80) - 20}
		}
	}
	return err
}

// read returns whether the model accepts the version of a complete read.
func (s *scriptedServer) read(version string, consistent bool) bool {
	order, err := states.CompareVersions(version, s.seen)
	switch {
	case err != nil || version == "":
		return false
	case order < 0 && !consistent:
		return false
	case order < 0:
		s.seen = ""
		s.expected.NewEpoch()
	}
	return true
}

func (s *scriptedServer) replace(items []any, version string) bool {
	if s.expected.CheckRead(items, version) != nil {
		return false
	}
	s.seen = version
	_ = s.expected.Replace(items, version)
	return true
}

// apply is an event after the complete read.
func (s *scriptedServer) apply(event watch.Event) {
	version := bookmarkVersion(event)
	switch event.Type {
	case watch.Added:
		_ = s.expected.Add(event.Object.DeepCopyObject())
	case watch.Modified:
		_ = s.expected.Update(event.Object.DeepCopyObject())
	case watch.Deleted:
		_ = s.expected.Delete(event.Object.DeepCopyObject())
	case watch.Bookmark:
		_ = s.expected.Bookmark(version)
	}
	if order, _ := states.CompareVersions(version, s.seen); order > 0 {
		s.seen = version
	}
}

// Watch implements listwatch.Source.
func (s *scriptedServer) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	s.compare("at a watch")
	initial := options.SendInitialEvents != nil
	if len(s.bytes) == 0 {
		return s.watchWell(ctx, initial, options.ResourceVersion)
	}
	if b := s.next(); b < 40 {
		return nil, []error{s.status(), errDown, io.EOF}[b%3]
	} else if b == 255 {
		return nil, nil
	}
	events, complete := s.events(initial, options.ResourceVersion == "")
	stream := newStream(events...)
	stream.endWith(ctx)
	if b := s.next(); complete || b < 200 {
		stream.finish([]error{io.EOF, errDown, io.ErrUnexpectedEOF}[b%3])
	} // else the reflector ends it
	return stream, nil
}

// events returns the events of a stream, as far as the reflector needs them, and does to
// the model what they should do. complete is set if the initial events end.
func (s *scriptedServer) events(initial, consistent bool) (events []watch.Event, complete bool) {
	var held []any
	newest, ended := "", false // the version of the newest initial event
	for range s.next() % 16 {
		event, ok := s.event()
		events = append(events, event)
		if ended {
			continue // the reflector must not read on
		}
		if !ok {
			ended = initial || event.Type != watch.Bookmark // a bookmark after the state is ignored
			continue
		}
		switch version := bookmarkVersion(event); {
		case !initial:
			s.apply(event)
		case endsInitial(event):
			ended = !s.read(version, consistent) || !s.replace(held, version)
			initial = false
		case event.Type == watch.Bookmark:
		case repeated(version, newest, event.Type != watch.Deleted):
		case event.Type == watch.Deleted:
			held, newest = nil, version
		default:
			held, newest = []any{event.Object.DeepCopyObject()}, version
		}
	}
	return events, !initial
}

// repeated reports whether an initial event is an old one: of a version below the newest, or of that version, unless it
// is a deletion.
func repeated(version, newest string, exists bool) bool {
	order, err := states.CompareVersions(version, newest)
	return err == nil && (order < 0 || order == 0 && exists)
}

// List implements listwatch.Source.
func (s *scriptedServer) List(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.compare("at a list")
	if len(s.bytes) == 0 {
		return s.listWell(options.ResourceVersion)
	}
	switch b := s.next(); {
	case b < 40:
		return nil, []error{s.status(), errDown, io.EOF}[b%3]
	case b < 50:
		return []runtime.Object{nil, (*corev1.SecretList)(nil), &metav1.Table{}, &metav1.Status{Code: 200}, secret("5")}[b%5], nil
	}
	all := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: s.version()}}
	var items []any
	for range min(s.next()%8, 2) {
		if object, ok := s.object().(*corev1.Secret); ok && object != nil {
			all.Items = append(all.Items, *object)
			items = append(items, object.DeepCopy())
		}
	}
	if s.next() > 240 {
		all.Continue = "more"
	} else if s.read(all.ResourceVersion, options.ResourceVersion == "") {
		s.replace(items, all.ResourceVersion)
	}
	return all, nil
}

func (s *scriptedServer) isFuture(version string) bool {
	order, _ := states.CompareVersions(version, wellVersion)
	return order > 0
}

func (s *scriptedServer) watchWell(ctx context.Context, initial bool, version string) (listwatch.Stream, error) {
	switch {
	case s.isFuture(version):
		return nil, tooLarge()
	case !initial:
		var missed []watch.Event
		if order, _ := states.CompareVersions(version, wellObject().ResourceVersion); order < 0 {
			missed = []watch.Event{event(watch.Modified, wellObject())}
			s.apply(missed[0])
		}
		return bound(ctx, newStream(missed...)), nil
	}
	if s.read(wellVersion, version == "") {
		s.replace([]any{wellObject()}, wellVersion)
	}
	return bound(ctx, newStream(state(wellObject(), wellVersion)...)), nil
}

func (s *scriptedServer) listWell(version string) (runtime.Object, error) {
	if s.isFuture(version) {
		return nil, tooLarge()
	}
	if s.read(wellVersion, version == "") {
		s.replace([]any{wellObject()}, wellVersion)
	}
	return list(wellVersion, wellObject()), nil
}
