// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/test/e2e"
)

// silence is how long a test waits for what a silent stream must lead to: two minutes pass until it is looked after, and up
// to half a minute more.
const silence = 5 * time.Minute

// Without WatchList there is a moment between a list and the watch that follows it. A server that is rolled back in
// that moment has never heard of the version that the watch begins at, and is silent for ever: a list beside the stream
// finds out.
func TestRestoreBetweenListAndWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three minutes")
	}
	t.Parallel()
	const fault = "etcd restored between list and watch"
	cluster := e2e.New(t, e2e.Options{DisableWatchList: true})
	restored := make(chan struct{})
	config := cluster.Admin()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return holdWatches(next, restored) })
	r := newRig(t, cluster, "between", config, objectcache.WatchOptions{})
	r.put("secret", "first")
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range overtaking { // or the restored server would soon have overtaken the watch by what it writes itself
		r.update("second", "secret")
		r.update("third", "secret")
	}
	r.store.AddReference(r.namespace, "secret", owner)
	r.converged([]string{"secret"})
	if err := cluster.Restore(r.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	close(restored)
	want := r.onServer()
	took := r.within(silence, func() error { return r.agrees("secret", want["secret"]) })
	cause := r.status("secret").LastError
	if got := reflector.Classify(cause); got != reflector.Silent {
		t.Errorf("what ended the stream: got %s (%v), want %s", got, cause, reflector.Silent)
	}
	observe(t, fault, "noticed and converges though versions went back", "1 object; "+causeOf(r.status("secret")), took)
	r.update("fourth", "secret")
	took = r.converged([]string{"secret"})
	observe(t, fault, "is followed again", "the object", took)
}

// holdWatches holds back watches that do not ask for the state, until told otherwise.
func holdWatches(next http.RoundTripper, until <-chan struct{}) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if query := request.URL.Query(); query.Has("watch") && !query.Has("sendInitialEvents") {
			select {
			case <-until:
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		}
		return next.RoundTrip(request)
	})
}
