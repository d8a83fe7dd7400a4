// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

func (s *suite) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

// create makes a Secret that holds value.
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

func immutable(secret *corev1.Secret) { secret.Immutable = ptr.To(true) }

func valueOf(secret *corev1.Secret) string {
	if secret == nil {
		return "(nil)"
	}
	return string(secret.Data["value"])
}

// number is a resource version as a number: the server's are, and they rise.
func (s *suite) number(version string) uint64 {
	s.Helper()
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		s.Fatalf("resource version %q: %v", version, err)
	}
	return n
}

// selected is the selection of one name.
func selected(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

// initial makes options ask for the state and then the changes.
func initial(options metav1.ListOptions, version string) metav1.ListOptions {
	options.SendInitialEvents = ptr.To(true)
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	options.AllowWatchBookmarks = true
	options.ResourceVersion = version
	return options
}

// watch opens a watch of Secrets, which ends with the case.
func (s *suite) watch(options metav1.ListOptions) watch.Interface {
	s.Helper()
	w, err := s.admin.CoreV1().Secrets(s.namespace).Watch(s.ctx, options)
	if err != nil {
		s.Fatalf("watch: %v", err)
	}
	s.Cleanup(func() {
		w.Stop()
		for range w.ResultChan() {
			// Until the channel is closed: the reader has ended then.
		}
	})
	return w
}

// next returns the next event of a watch. Bookmarks that the server sends now
// and then are passed over; the one that ends the initial events is not.
func (s *suite) next(w watch.Interface) watch.Event {
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

// expect wants the next event to be of that type and, but for bookmarks, value.
func (s *suite) expect(w watch.Interface, kind watch.EventType, value string) *corev1.Secret {
	s.Helper()
	event := s.next(w)
	secret, ok := event.Object.(*corev1.Secret)
	if !ok || event.Type != kind || kind != watch.Bookmark && valueOf(secret) != value {
		s.Fatalf("event: got %s of a %T with %q, want %s with %q", event.Type, event.Object, valueOf(secret), kind, value)
	}
	return secret
}

// failure is the error of a watch, whether it came as the answer or in the
// stream.
func (s *suite) failure(options metav1.ListOptions) error {
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
