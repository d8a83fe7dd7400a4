// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/objectcache"
)

func (s *suite) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

// create creates a Secret that holds value.
func (s *suite) create(name, value string, change ...func(*corev1.Secret)) *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Data:       map[string][]byte{"value": []byte(value)},
	}
	for _, f := range change {
		f(secret)
	}
	created, err := s.admin.CoreV1().Secrets(s.namespace).Create(s.ctx, secret, metav1.CreateOptions{})
	if err != nil {
		s.Fatalf("create %s: %v", name, err)
	}
	return created
}

func (s *suite) update(name, value string) *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Data:       map[string][]byte{"value": []byte(value)},
	}
	updated, err := s.admin.CoreV1().Secrets(s.namespace).Update(s.ctx, secret, metav1.UpdateOptions{})
	if err != nil {
		s.Fatalf("update %s: %v", name, err)
	}
	return updated
}

func (s *suite) remove(name string) {
	s.Helper()
	if err := s.admin.CoreV1().Secrets(s.namespace).Delete(s.ctx, name, metav1.DeleteOptions{}); err != nil {
		s.Fatalf("delete %s: %v", name, err)
	}
}

// getter is a store or a manager of Secrets.
type getter interface {
	Get(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// wantObject gets an object and fails the case unless it holds value.
func (s *suite) wantObject(from getter, name, value string) *corev1.Secret {
	s.Helper()
	secret, err := from.Get(s.ctx, s.namespace, name)
	if err != nil || valueOf(secret) != value {
		s.Fatalf("Get %s: got %q, %v, want %q", name, valueOf(secret), err, value)
	}
	return secret
}

func (s *suite) wantNotFound(from getter, name string) {
	s.Helper()
	if _, err := from.Get(s.ctx, s.namespace, name); !apierrors.IsNotFound(err) {
		s.Errorf("Get %s: got %v, want NotFound", name, err)
	}
}

func (s *suite) wantNotRegistered(from getter, name string) {
	s.Helper()
	if _, err := from.Get(s.ctx, s.namespace, name); !errors.Is(err, objectcache.ErrNotRegistered) {
		s.Errorf("Get %s: got %v, want ErrNotRegistered", name, err)
	}
}

func immutable(secret *corev1.Secret) { secret.Immutable = ptr.To(true) }

func valueOf(secret *corev1.Secret) string {
	if secret == nil {
		return "(nil)"
	}
	return string(secret.Data["value"])
}

// parseVersion returns a resource version as a number.
func (s *suite) parseVersion(version string) uint64 {
	s.Helper()
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		s.Fatalf("resource version %q: %v", version, err)
	}
	return n
}

// selectName returns list options that select one name.
func selectName(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

// watchListOptions returns options for a WatchList that is not older than version.
func watchListOptions(options metav1.ListOptions, version string) metav1.ListOptions {
	options.SendInitialEvents = ptr.To(true)
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	options.AllowWatchBookmarks = true
	options.ResourceVersion = version
	return options
}

// watch opens a watch of Secrets and stops it when the case ends.
func (s *suite) watch(options metav1.ListOptions) watch.Interface {
	s.Helper()
	w, err := s.admin.CoreV1().Secrets(s.namespace).Watch(s.ctx, options)
	if err != nil {
		s.Fatalf("watch: %v", err)
	}
	s.Cleanup(func() {
		w.Stop()
		for range w.ResultChan() {
			// The channel is closed when the goroutine that reads the stream has ended.
		}
	})
	return w
}

// nextEvent returns the next event of a watch. It skips all bookmarks but the one that ends the initial events.
func (s *suite) nextEvent(w watch.Interface) watch.Event {
	s.Helper()
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				s.Fatal("the watch ended, want another event")
			}
			if secret, ok := event.Object.(*corev1.Secret); ok && event.Type == watch.Bookmark && secret.Annotations[metav1.InitialEventsAnnotationKey] == "" {
				continue
			}
			return event
		case <-s.ctx.Done():
			s.Fatal("no event in time")
		}
	}
}

// wantEvent fails the case unless the next event has the type and, except for a bookmark, the value.
func (s *suite) wantEvent(w watch.Interface, kind watch.EventType, value string) *corev1.Secret {
	s.Helper()
	event := s.nextEvent(w)
	secret, ok := event.Object.(*corev1.Secret)
	if !ok || event.Type != kind || kind != watch.Bookmark && valueOf(secret) != value {
		s.Fatalf("event: got %s of a %T with %q, want %s with %q", event.Type, event.Object, valueOf(secret), kind, value)
	}
	return secret
}

// watchError returns the error of a watch, whether the server sent it as the response or as an event.
func (s *suite) watchError(options metav1.ListOptions) error {
	s.Helper()
	w, err := s.admin.CoreV1().Secrets(s.namespace).Watch(s.ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	select {
	case event := <-w.ResultChan():
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		return errors.New("an event of type " + string(event.Type))
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
