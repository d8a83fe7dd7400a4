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

// serverCases returns the cases about the server behaviour that the library depends on.
func serverCases() []testCase {
	return []testCase{
		{"versions-rise", "resource versions are numbers that rise with every write, across all resources", versionsRise, 0},
		{"named-list", "a list by name returns that object or nothing, at a version not older than the object", namedList, 0},
		{"named-watch", "a watch by name sends the events of that object only, in order, including recreation", namedWatch, 0},
		{"watch-list", "a WatchList sends the state, a bookmark that ends it, and then the changes", watchList, 0},
		{"watch-list-absent", "a WatchList of an object that does not exist begins with the bookmark", watchListAbsent, 0},
		{"watch-list-resume", "a WatchList at an earlier version sends a state not older than it, and then later changes", watchListResume, 0},
		{"read-too-large", "a read at a future version fails with cause ResourceVersionTooLarge", readTooLarge, 0},
		{"watch-compacted", "a watch from a compacted version gets 410", watchCompacted, 0},
		{"watch-timeout", "timeoutSeconds ends a watch without an error", watchTimeout, 0},
		{"conflict", "an update with an old version gets a conflict, and changes nothing", conflict, 0},
		{"immutable", "the data of an immutable object cannot be changed", immutableUpdate, 0},
		{"namespace", "a watch by name sends no events of other namespaces", otherNamespace, 0},
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
			if n := s.parseVersion(version); n <= last {
				s.Errorf("got version %d after %d, want a higher one", n, last)
			} else {
				last = n
			}
		}
	}
}

func namedList(s *suite) {
	s.create("other", "x")
	for _, version := range []string{"", "0"} {
		options := selectName("tls")
		options.ResourceVersion = version
		list, err := s.admin.CoreV1().Secrets(s.namespace).List(s.ctx, options)
		if err != nil || len(list.Items) != 0 {
			s.Fatalf("list at %q: got %d objects, %v, want none", version, len(list.Items), err)
		}
	}
	created := s.create("tls", "1")
	list, err := s.admin.CoreV1().Secrets(s.namespace).List(s.ctx, selectName("tls"))
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != created.UID {
		s.Fatalf("list: got %d objects, %v, want the created one", len(list.Items), err)
	}
	if read, own := s.parseVersion(list.ResourceVersion), s.parseVersion(created.ResourceVersion); read < own {
		s.Errorf("list: got version %d, want at least the object's, %d", read, own)
	}
}

func namedWatch(s *suite) {
	before := s.create("other", "x")
	options := selectName("tls")
	options.ResourceVersion = before.ResourceVersion
	w := s.watch(options)
	first := s.create("tls", "1")
	s.update("other", "y")
	s.update("tls", "2")
	s.remove("tls")
	second := s.create("tls", "3")
	if got := s.wantEvent(w, watch.Added, "1"); got.UID != first.UID || got.ResourceVersion != first.ResourceVersion {
		s.Errorf("created: got version %s, want %s", got.ResourceVersion, first.ResourceVersion)
	}
	modified := s.wantEvent(w, watch.Modified, "2")
	deleted := s.wantEvent(w, watch.Deleted, "2")
	if s.parseVersion(deleted.ResourceVersion) <= s.parseVersion(modified.ResourceVersion) {
		s.Errorf("deleted at version %s, want one after %s", deleted.ResourceVersion, modified.ResourceVersion)
	}
	if got := s.wantEvent(w, watch.Added, "3"); got.UID != second.UID || got.UID == first.UID {
		s.Errorf("recreated: got UID %s, want %s", got.UID, second.UID)
	}
}

// hasWatchList reports whether the server supports WatchList. It fails the case if a server without it does not refuse
// one with Invalid.
func (s *suite) hasWatchList() bool {
	s.Helper()
	if s.WatchList {
		return true
	}
	err := s.watchError(watchListOptions(selectName("tls"), ""))
	if !apierrors.IsInvalid(err) {
		s.Errorf("WatchList on a server without it: got %v, want Invalid", err)
	}
	return false
}

func watchList(s *suite) {
	if !s.hasWatchList() {
		return
	}
	s.create("other", "x")
	created := s.create("tls", "1")
	w := s.watch(watchListOptions(selectName("tls"), ""))
	s.wantEvent(w, watch.Added, "1")
	end := s.wantEvent(w, watch.Bookmark, "")
	if end.Annotations[metav1.InitialEventsAnnotationKey] != "true" || s.parseVersion(end.ResourceVersion) < s.parseVersion(created.ResourceVersion) {
		s.Errorf("bookmark: got %v at %s, want the end of the initial events at or after %s", end.Annotations, end.ResourceVersion, created.ResourceVersion)
	}
	s.update("tls", "2")
	s.wantEvent(w, watch.Modified, "2")
	s.remove("tls")
	s.wantEvent(w, watch.Deleted, "2")
}

func watchListAbsent(s *suite) {
	if !s.hasWatchList() {
		return
	}
	w := s.watch(watchListOptions(selectName("tls"), ""))
	s.wantEvent(w, watch.Bookmark, "")
	s.create("tls", "1")
	s.wantEvent(w, watch.Added, "1")
}

func watchListResume(s *suite) {
	if !s.hasWatchList() {
		return
	}
	old := s.create("tls", "1")
	updated := s.update("tls", "2")
	w := s.watch(watchListOptions(selectName("tls"), old.ResourceVersion))
	// If the server's watch cache lags behind the update, the update comes as a change.
	ended, last := false, ""
	for !ended || last != updated.ResourceVersion {
		event := s.nextEvent(w)
		secret, ok := event.Object.(*corev1.Secret)
		switch {
		case ok && event.Type == watch.Bookmark:
			ended = true
		case ok && event.Type == watch.Added && last == "", ok && event.Type == watch.Modified:
			last = secret.ResourceVersion
		default:
			s.Fatalf("got event %s of a %T, want the state and its changes", event.Type, event.Object)
		}
		if s.parseVersion(secret.ResourceVersion) < s.parseVersion(old.ResourceVersion) {
			s.Errorf("%s: got version %s, want none older than %s", event.Type, secret.ResourceVersion, old.ResourceVersion)
		}
	}
}

func readTooLarge(s *suite) {
	future := fmt.Sprint(s.parseVersion(s.create("tls", "1").ResourceVersion) + 1_000_000)
	options := selectName("tls")
	options.ResourceVersion = future
	watched := make(chan error, 1)
	go func() { // concurrently: the server takes three seconds for each
		if !s.WatchList {
			watched <- nil
			return
		}
		watched <- s.watchError(watchListOptions(selectName("tls"), future))
	}()
	// MaxRetries(0): client-go would retry for as long as the server asks for it.
	err := s.admin.CoreV1().RESTClient().Get().Namespace(s.namespace).Resource("secrets").
		VersionedParams(&options, scheme.ParameterCodec).MaxRetries(0).Do(s.ctx).Error()
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		s.Errorf("list: got %v, want cause ResourceVersionTooLarge", err)
	}
	if err := <-watched; s.WatchList && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		s.Errorf("WatchList: got %v, want cause ResourceVersionTooLarge", err)
	}
}

func watchCompacted(s *suite) {
	old := s.create("tls", "1")
	for i := range 3 {
		s.update("tls", fmt.Sprint(i))
	}
	s.compact()
	options := selectName("tls")
	options.ResourceVersion = old.ResourceVersion
	if err := s.watchError(options); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		s.Errorf("watch: got %v, want 410", err)
	}
}

func watchTimeout(s *suite) {
	options := selectName("tls")
	options.TimeoutSeconds = ptr.To[int64](1)
	w := s.watch(options)
	select {
	case event, ok := <-w.ResultChan():
		if ok {
			s.Errorf("got %s, want the end of the watch", event.Type)
		}
	case <-s.ctx.Done():
		s.Error("got no end of the watch, want one after 1 s")
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
		s.Errorf("after the conflict: got %q, %v, want 2", valueOf(got), err)
	}
}

func immutableUpdate(s *suite) {
	secret := s.create("tls", "1", immutable)
	secret.Data["value"] = []byte("2")
	if _, err := s.admin.CoreV1().Secrets(s.namespace).Update(s.ctx, secret, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		s.Errorf("changed data: got %v, want Invalid", err)
	}
	secret.Data["value"] = []byte("1")
	secret.Immutable = nil
	if _, err := s.admin.CoreV1().Secrets(s.namespace).Update(s.ctx, secret, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		s.Errorf("immutable removed: got %v, want Invalid", err)
	}
}

func otherNamespace(s *suite) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "conformance-elsewhere"}}
	secret, err := s.admin.CoreV1().Secrets("default").Create(s.ctx, secret, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	options := selectName(secret.Name)
	options.ResourceVersion = secret.ResourceVersion
	w := s.watch(options)
	if err := s.admin.CoreV1().Secrets("default").Delete(s.ctx, secret.Name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.create(secret.Name, "mine")
	s.wantEvent(w, watch.Added, "mine")
}
