// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// serverCases are what the library needs of a server, and what the in-process
// one must do as the real one does.
func serverCases() []testCase {
	return []testCase{
		{"versions-rise", "resource versions are numbers that rise across all resources", versionsRise},
		{"named-list", "a named list holds that object alone, or nothing, at a version not before it", namedList},
		{"named-watch", "a named watch tells of that object alone, in order, recreation included", namedWatch},
		{"watch-list", "a WatchList brings the state, a bookmark that ends it, and then the changes", watchList},
		{"watch-list-absent", "a WatchList of nothing is a bookmark", watchListAbsent},
		{"watch-list-resume", "a WatchList at an earlier version brings a state not before it, and then what came after", watchListResume},
		{"read-too-large", "a read at a version from the future is refused as too large", readTooLarge},
		{"watch-forgotten", "a watch from a forgotten version gets 410", watchForgotten},
		{"watch-timeout", "timeoutSeconds ends a watch in the regular way", watchTimeout},
		{"conflict", "an update with an old version is a conflict, and changes nothing", conflict},
		{"immutable", "the data of an immutable object cannot be changed", immutableRefused},
		{"namespace", "a named selection sees nothing of other namespaces", otherNamespace},
	}
}

func versionsRise(s *suite) {
	last := uint64(0)
	for i := range 5 {
		secret := s.create(fmt.Sprint("secret-", i), "")
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i)}}
		configMap, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(s.ctx, configMap, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		for _, version := range []string{secret.ResourceVersion, configMap.ResourceVersion} {
			if n := s.number(version); n <= last {
				s.Errorf("version %d after %d, want it to rise", n, last)
			} else {
				last = n
			}
		}
	}
}

func namedList(s *suite) {
	s.create("other", "x")
	for _, version := range []string{"", "0"} {
		options := selected("tls")
		options.ResourceVersion = version
		list, err := s.admin.CoreV1().Secrets(s.namespace).List(s.ctx, options)
		if err != nil || len(list.Items) != 0 {
			s.Fatalf("at %q: got %d objects, %v, want none", version, len(list.Items), err)
		}
	}
	created := s.create("tls", "1")
	list, err := s.admin.CoreV1().Secrets(s.namespace).List(s.ctx, selected("tls"))
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != created.UID {
		s.Fatalf("got %d objects, %v, want the one", len(list.Items), err)
	}
	if read, own := s.number(list.ResourceVersion), s.number(created.ResourceVersion); read < own {
		s.Errorf("read at version %d, before the object's own %d", read, own)
	}
}

func namedWatch(s *suite) {
	before := s.create("other", "x")
	options := selected("tls")
	options.ResourceVersion = before.ResourceVersion
	w := s.watch(options)
	first := s.create("tls", "1")
	s.update("other", "y")
	s.update("tls", "2")
	s.remove("tls")
	second := s.create("tls", "3")
	if got := s.expect(w, watch.Added, "1"); got.UID != first.UID || got.ResourceVersion != first.ResourceVersion {
		s.Errorf("created: got version %s, want %s", got.ResourceVersion, first.ResourceVersion)
	}
	modified := s.expect(w, watch.Modified, "2")
	deleted := s.expect(w, watch.Deleted, "2")
	if s.number(deleted.ResourceVersion) <= s.number(modified.ResourceVersion) {
		s.Errorf("deleted at version %s, want one after %s", deleted.ResourceVersion, modified.ResourceVersion)
	}
	if got := s.expect(w, watch.Added, "3"); got.UID != second.UID || got.UID == first.UID {
		s.Errorf("recreated: got UID %s, want the new %s", got.UID, second.UID)
	}
}

// needsWatchList says what a server without WatchList does instead, and tells
// whether this one does it.
func (s *suite) needsWatchList() bool {
	s.Helper()
	if s.WatchList {
		return true
	}
	err := s.failure(initial(selected("tls"), ""))
	if !apierrors.IsInvalid(err) {
		s.Errorf("WatchList on a server without it: got %v, want Invalid", err)
	}
	return false
}

func watchList(s *suite) {
	if !s.needsWatchList() {
		return
	}
	s.create("other", "x")
	created := s.create("tls", "1")
	w := s.watch(initial(selected("tls"), ""))
	s.expect(w, watch.Added, "1")
	end := s.expect(w, watch.Bookmark, "")
	if end.Annotations[metav1.InitialEventsAnnotationKey] != "true" || s.number(end.ResourceVersion) < s.number(created.ResourceVersion) {
		s.Errorf("bookmark: got %v at %s, want the end of the initial events at or after %s", end.Annotations, end.ResourceVersion, created.ResourceVersion)
	}
	s.update("tls", "2")
	s.expect(w, watch.Modified, "2")
	s.remove("tls")
	s.expect(w, watch.Deleted, "2")
}

func watchListAbsent(s *suite) {
	if !s.needsWatchList() {
		return
	}
	w := s.watch(initial(selected("tls"), ""))
	s.expect(w, watch.Bookmark, "")
	s.create("tls", "1")
	s.expect(w, watch.Added, "1")
}

func watchListResume(s *suite) {
	if !s.needsWatchList() {
		return
	}
	old := s.create("tls", "1")
	updated := s.update("tls", "2")
	w := s.watch(initial(selected("tls"), old.ResourceVersion))
	// The server's cache may lag behind the update: it comes as a change then.
	ended, last := false, ""
	for !ended || last != updated.ResourceVersion {
		event := s.next(w)
		secret, ok := event.Object.(*corev1.Secret)
		switch {
		case ok && event.Type == watch.Bookmark:
			ended = true
		case ok && event.Type == watch.Added && last == "", ok && event.Type == watch.Modified:
			last = secret.ResourceVersion
		default:
			s.Fatalf("event: got %s of a %T", event.Type, event.Object)
		}
		if s.number(secret.ResourceVersion) < s.number(old.ResourceVersion) {
			s.Errorf("%s: got version %s, want none before %s", event.Type, secret.ResourceVersion, old.ResourceVersion)
		}
	}
}

func readTooLarge(s *suite) {
	future := fmt.Sprint(s.number(s.create("tls", "1").ResourceVersion) + 1_000_000)
	options := selected("tls")
	options.ResourceVersion = future
	watched := make(chan error, 1)
	go func() { // at the same time: the server takes three seconds for each
		if !s.WatchList {
			watched <- nil
			return
		}
		watched <- s.failure(initial(selected("tls"), future))
	}()
	// Without retries: client-go would try for as long as the server says.
	err := s.admin.CoreV1().RESTClient().Get().Namespace(s.namespace).Resource("secrets").
		VersionedParams(&options, scheme.ParameterCodec).MaxRetries(0).Do(s.ctx).Error()
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		s.Errorf("list: got %v, want it too large", err)
	}
	if err := <-watched; s.WatchList && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		s.Errorf("WatchList: got %v, want it too large", err)
	}
}

func watchForgotten(s *suite) {
	old := s.create("tls", "1")
	for i := range 3 {
		s.update("tls", fmt.Sprint(i))
	}
	if err := s.Forget(s.ctx); err != nil {
		s.Fatal(err)
	}
	options := selected("tls")
	options.ResourceVersion = old.ResourceVersion
	if err := s.failure(options); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		s.Errorf("got %v, want it to have expired", err)
	}
}

func watchTimeout(s *suite) {
	options := selected("tls")
	options.TimeoutSeconds = ptr.To[int64](1)
	w := s.watch(options)
	select {
	case event, ok := <-w.ResultChan():
		if ok {
			s.Errorf("got %s, want the end", event.Type)
		}
	case <-s.ctx.Done():
		s.Error("the watch did not end")
	}
}

func conflict(s *suite) {
	old := s.create("tls", "1")
	s.update("tls", "2")
	old.Data["value"] = []byte("3")
	_, err := s.admin.CoreV1().Secrets(s.namespace).Update(s.ctx, old, metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) {
		s.Errorf("update: got %v, want a conflict", err)
	}
	got, err := s.admin.CoreV1().Secrets(s.namespace).Get(s.ctx, "tls", metav1.GetOptions{})
	if err != nil || valueOf(got) != "2" {
		s.Errorf("after it: got %q, %v, want 2", valueOf(got), err)
	}
}

func immutableRefused(s *suite) {
	secret := s.create("tls", "1", immutable)
	secret.Data["value"] = []byte("2")
	if _, err := s.admin.CoreV1().Secrets(s.namespace).Update(s.ctx, secret, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		s.Errorf("other data: got %v, want Invalid", err)
	}
	secret.Data["value"] = []byte("1")
	secret.Immutable = nil
	if _, err := s.admin.CoreV1().Secrets(s.namespace).Update(s.ctx, secret, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		s.Errorf("immutable no more: got %v, want Invalid", err)
	}
}

func otherNamespace(s *suite) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "conformance-elsewhere"}}
	secret, err := s.admin.CoreV1().Secrets("default").Create(s.ctx, secret, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	options := selected(secret.Name)
	options.ResourceVersion = secret.ResourceVersion
	w := s.watch(options)
	if err := s.admin.CoreV1().Secrets("default").Delete(s.ctx, secret.Name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.create(secret.Name, "mine")
	s.expect(w, watch.Added, "mine")
}
