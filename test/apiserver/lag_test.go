// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// lagging is a server whose watch cache has stopped after the first of two writes to a Secret.
type lagging struct {
	*fixture
	first, second *corev1.Secret
}

func inLag(t *testing.T, wait time.Duration, test func(t *testing.T, f *lagging)) {
	synctest.Test(t, func(t *testing.T) {
		f := &lagging{fixture: newFixture(t, Options{InMemory: true, TLS: true})}
		f.first = f.createSecret(newSecret("a"))
		f.Lag(wait)
		f.second = f.updateSecret(f.first, "new")
		test(t, f)
	})
}

// atLeast returns the options of a read that is not older than version.
func atLeast(version string) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
}

// TestLagReads checks at which version a lagging server reads, and when it responds.
func TestLagReads(t *testing.T) {
	const wait = 3 * time.Second
	inLag(t, wait, func(t *testing.T, f *lagging) {
		for version, want := range map[string]string{ // empty: 504
			"":                       f.second.ResourceVersion,
			"0":                      f.first.ResourceVersion,
			f.first.ResourceVersion:  f.first.ResourceVersion,
			f.second.ResourceVersion: "",
		} {
			began := time.Now()
			got, err := f.client.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{ResourceVersion: version})
			f.checkRead("get", version, want, got.ResourceVersion, err)
			took := time.Since(began)
			if want == "" && took < wait || want != "" && took > 0 { // client-go's Get retries after 504
				t.Errorf("get at %q: took %v", version, took)
			}
			options := named("a", metav1.ListOptions{})
			if version != "" {
				options = named("a", atLeast(version))
			}
			list, err := f.client.CoreV1().Secrets("default").List(t.Context(), options)
			f.checkRead("list", version, want, list.ResourceVersion, err)
			if want != "" && list.Items[0].ResourceVersion != want {
				t.Errorf("list at %q: got the Secret at %s, want %s", version, list.Items[0].ResourceVersion, want)
			}
		}
		exact := metav1.ListOptions{ResourceVersion: f.second.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		if list := f.listSecrets(exact); list.Items[0].ResourceVersion != f.second.ResourceVersion {
			t.Errorf("list at an exact version: got %s, want %s", list.Items[0].ResourceVersion, f.second.ResourceVersion)
		}
	})
}

// checkRead checks the result of a read: a state at version want, or 504 if want is empty.
func (f *lagging) checkRead(verb, at, want, got string, err error) {
	f.t.Helper()
	if want == "" && !isTooLarge(err) || want != "" && (err != nil || got != want) {
		f.t.Errorf("%s at %q: got version %q, %v, want %q", verb, at, got, err, want)
	}
}

// TestLagWatchLists checks that a WatchList that needs a newer state than the watch cache has gets 504 in its stream,
// after the wait, and that one that does not gets the old state.
func TestLagWatchLists(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": 0, "after three seconds": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inLag(t, wait, func(t *testing.T, f *lagging) {
				for _, version := range []string{"", f.second.ResourceVersion} {
					began := time.Now()
					options := watchList()
					options.ResourceVersion = version
					status := expect(t, f.watchSecrets(named("a", options)), watch.Error).Object.(*metav1.Status)
					if took := time.Since(began); took != wait || !isTooLarge(&apierrors.StatusError{ErrStatus: *status}) {
						t.Errorf("WatchList at %q: got %+v after %v, want 504 after %v", version, status, took, wait)
					}
				}
				for _, version := range []string{"0", f.first.ResourceVersion} {
					options := watchList()
					options.ResourceVersion = version
					w := f.watchSecrets(named("a", options))
					if got := expect(t, w, watch.Added).Object.(*corev1.Secret).ResourceVersion; got != f.first.ResourceVersion {
						t.Errorf("WatchList at %q: got version %s, want %s", version, got, f.first.ResourceVersion)
					}
					if got := metaOf(t, expect(t, w, watch.Bookmark)).GetResourceVersion(); got != f.first.ResourceVersion {
						t.Errorf("WatchList at %q: got a bookmark at %s, want %s", version, got, f.first.ResourceVersion)
					}
				}
			})
		})
	}
}

// TestLagWatches checks that watches get nothing new during a lag, not even newer bookmarks, and then all that they
// have missed, once and in order.
func TestLagWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{InMemory: true, TLS: true})
		first := f.createSecret(newSecret("a"))
		open := f.watchSecrets(named("a", metav1.ListOptions{ResourceVersion: first.ResourceVersion, AllowWatchBookmarks: true}))
		f.Lag(time.Second)
		second := f.updateSecret(first, "2")
		late := f.watchSecrets(named("a", metav1.ListOptions{ResourceVersion: first.ResourceVersion}))
		future := f.watchSecrets(named("a", metav1.ListOptions{ResourceVersion: second.ResourceVersion}))
		if got := metaOf(t, expect(t, open, watch.Bookmark)).GetResourceVersion(); got != first.ResourceVersion {
			t.Errorf("got a bookmark at %s, want the version of the watch cache, %s", got, first.ResourceVersion)
		}
		f.updateSecret(second, "3")
		f.CatchUp()
		for watcher, want := range map[watch.Interface][]string{
			open: {"MODIFIED a 2", "MODIFIED a 3"}, late: {"MODIFIED a 2", "MODIFIED a 3"}, future: {"MODIFIED a 3"},
		} {
			for _, want := range want {
				if got := textOf(<-watcher.ResultChan()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		}
		f.deleteSecret("a")
		for _, watcher := range []watch.Interface{open, late, future} {
			expect(t, watcher, watch.Deleted)
		}
	})
}

// TestCatchUpServesReads checks that a read that waits for the watch cache is served when the lag ends, and that a
// restored server does not lag.
func TestCatchUpServesReads(t *testing.T) {
	for name, end := range map[string]func(f *lagging){
		"catch up": func(f *lagging) { f.CatchUp() },
		"restore":  func(f *lagging) { f.Restore(f.Snapshot()) },
	} {
		t.Run(name, func(t *testing.T) {
			inLag(t, time.Minute, func(t *testing.T, f *lagging) {
				time.AfterFunc(time.Second, func() { end(f) })
				if list := f.listSecrets(atLeast(f.second.ResourceVersion)); list.Items[0].ResourceVersion != f.second.ResourceVersion {
					t.Errorf("got version %s, want %s", list.Items[0].ResourceVersion, f.second.ResourceVersion)
				}
				if got := f.do(http.MethodGet, "/api/v1/namespaces/default/secrets/a?resourceVersion=0", ""); got.code != 200 {
					t.Errorf("got %d, want 200", got.code)
				}
			})
		})
	}
}
