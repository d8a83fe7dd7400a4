// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// If the right to the namespace is revoked, each object has a stream of its own at once. The shared stream is tried
// again after a pause.
func TestSharedRightsAreRevoked(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		sub := r.subscribe()
		defer sub.stop()
		sub.seen()
		r.refused.Store(&forbidden().ErrStatus)
		r.closeShared()
		synctest.Wait()
		r.update(all[0], "1")
		time.Sleep(5 * time.Second)
		r.wantStreams("revoked", 0, 6)
		r.wantPhase("revoked", servingNamed, all...)
		r.wantValues("revoked", "1", all[0])
		want(t, "revoked", sub.seen(), all[0]+"=1")
		before := r.sharedRequests()
		time.Sleep(4 * time.Minute)
		if got := r.sharedRequests() - before; got != 0 {
			t.Errorf("tries within 4 minutes: got %d, want none", got)
		}
		time.Sleep(time.Hour)
		if got := r.sharedRequests() - before; got < 6 || got > 13 {
			t.Errorf("tries in an hour: got %d, want one every 5 to 10 minutes", got)
		}
		r.refused.Store(nil)
		time.Sleep(retried)
		r.wantStreams("granted again", 1, 0)
		want(t, "in all that time", sub.seen())
	})
}

// Without the right from the beginning, references sync by their own streams.
func TestSharedIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))}
		r.refused.Store(&forbidden().ErrStatus)
		r.server.Intercept(r.refuseShared)
		r.createAll(names(6)...)
		r.reference(names(6)...)
		r.run()
		time.Sleep(5 * time.Second)
		r.wantStreams("forbidden", 0, 6)
		r.wantValues("forbidden", "0", names(6)...)
		r.stop()
	})
}

// A shared stream that fails while others work is given up after 30 s. One that the server ended is opened again.
func TestSharedStreamFails(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		for range 5 {
			r.closeShared()
			r.update(all[0], "1")
			time.Sleep(15 * time.Second)
			r.wantStreams("ended", 1, 0)
		}
		r.wantValues("ended", "1", all[0])
		r.refused.Store(&unavailable().ErrStatus)
		r.closeShared()
		time.Sleep(20 * time.Second)
		r.wantStreams("failing", 0, 0)
		r.wantPhase("failing", objectcache.PhaseNotUpdated, all...)
		r.update(all[1], "1")
		time.Sleep(40 * time.Second)
		r.wantStreams("given up", 0, 8)
		r.wantValues("given up", "1", all[1])
		r.refused.Store(nil)
		time.Sleep(retried)
		r.wantStreams("in the end", 1, 0)
	})
}

// In an outage of the server, the objects keep the shared stream.
func TestSharedOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, tap := tappedRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))
		all, other := names(8), []string{"o1", "o2", "o3"}
		r.createAll(all...)
		r.reference(all...)
		for _, name := range other {
			r.AddReference("elsewhere", name, "pod")
		}
		r.run()
		time.Sleep(joined)
		tap.down.Store(true)
		r.server.CloseStreams(nil)
		time.Sleep(10 * time.Minute)
		r.wantStreams("outage", 0, 0)
		r.wantValues("outage", "0", all...)
		tap.down.Store(false)
		time.Sleep(20 * time.Second)
		r.wantStreams("after the outage", 1, len(other))
		r.wantPhase("after the outage", servingShared, all...)
		r.stop()
	})
}

// tap is a transport that may fail, or change the body of a watch of the namespace.
type tap struct {
	http.RoundTripper

	body  atomic.Pointer[func(name string) string] // the body of a watch of a name, or of the namespace; empty: the server's
	muted atomic.Bool                              // the stream of the namespace stays open and brings nothing
	down  atomic.Bool                              // no request reaches the server
}

// replace replaces the body of a watch of a name, of the namespace if the name is empty, or of none if body is empty.
func (p *tap) replace(name, body string) {
	answer := func(of string) string { return map[string]string{name: body}[of] }
	p.body.Store(&answer)
}

func (p *tap) RoundTrip(request *http.Request) (*http.Response, error) {
	if p.down.Load() {
		return nil, errors.New("connection refused")
	}
	response, err := p.RoundTripper.RoundTrip(request)
	if err != nil || !request.URL.Query().Has("watch") {
		return response, err
	}
	name := strings.TrimPrefix(request.URL.Query().Get("fieldSelector"), "metadata.name=")
	body := ""
	if answer := p.body.Load(); answer != nil {
		body = (*answer)(name)
	}
	switch {
	case body != "":
		_ = response.Body.Close()
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), untilDone{request.Context()}))
	case name == "":
		response.Body = &tappedBody{response.Body, p, request.Context()}
	}
	return response, nil
}

// untilDone is a body that brings nothing.
type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

type tappedBody struct {
	io.ReadCloser

	tap *tap
	ctx context.Context
}

func (b *tappedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.tap.muted.Load() {
		return untilDone{b.ctx}.Read(p)
	}
	return n, err
}

// tappedRig returns a rig whose store reaches the server through a tap.
func tappedRig(t *testing.T, server apiserver.Options, options objectcache.WatchOptions) (*sharedRig, *tap) {
	r, p := &sharedRig{rig: newRig(t, server, objectcache.WatchOptions{})}, &tap{}
	config := r.server.Config()
	config.QPS = -1
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { p.RoundTripper = inner; return p })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Store = newStore(t, resource.Secrets(client), options)
	return r, p
}

// An object that cannot be decoded, or is foreign, fails the shared stream once. The others get streams of their own,
// and share one again later.
func TestSharedStreamBringsABadObject(t *testing.T) {
	const event = `{"type":"ADDED","object":{"kind":"%s","apiVersion":"v1","metadata":{%s}%s}}` + "\n"
	bad := map[string]string{ // NOW is the version of the server, LATER a later one
		"not decodable":  fmt.Sprintf(event, "Secret", `"name":"s0"`, `,"data":{"password":7}`),
		"foreign":        fmt.Sprintf(event, "Secret", `"name":"s0","namespace":"other","resourceVersion":"NOW"`, ""),
		"no version":     fmt.Sprintf(event, "Secret", `"name":"s0","namespace":"default"`, ""),
		"no name":        fmt.Sprintf(event, "Secret", `"namespace":"default","resourceVersion":"NOW"`, ""),
		"newer than all": fmt.Sprintf(event, "Secret", `"name":"s0","namespace":"default","resourceVersion":"LATER"`, ""),
	}
	const end = `{"type":"BOOKMARK","object":{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"NOW",` +
		`"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	bodies := map[string]string{}
	for name, event := range bad {
		bodies[name+", in the state"] = event + end
		bodies[name+", later"] = end + event
	}
	delete(bodies, "newer than all, later") // it is an event like any other
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, tap := tappedRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))
				r.run()
				all := names(6)
				r.createAll(all...)
				r.reference(all...)
				time.Sleep(joined)
				r.wantStreams("at first", 1, 0)
				before := r.sharedRequests()
				tap.replace("", strings.NewReplacer("NOW", r.server.ResourceVersion(), "LATER", r.server.ResourceVersion()+"0").Replace(body))
				r.closeShared()
				time.Sleep(10 * time.Second)
				if got := r.sharedRequests() - before; got != 1 {
					t.Errorf("shared streams: got %d, want one that fails", got)
				}
				r.wantPhase("bad object", servingNamed, all...)
				r.wantValues("bad object", "0", all...)
				tap.replace("", "")
				time.Sleep(retried)
				r.wantPhase("in the end", servingShared, all...)
				r.stop()
			})
		})
	}
}

// An object that can never be decoded fails the shared stream once. After that the others share one.
func TestSharedBadObjectStaysBad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const end = `{"type":"BOOKMARK","object":{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"NOW",` +
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
		r, tap := tappedRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		bad := `{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s0"},"data":{"password":7}}}`
		state := bad
		for _, name := range all[1:] {
			state += `{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"` + name +
				`","namespace":"default","resourceVersion":"` + r.version(name) + `"}}}`
		}
		state += strings.ReplaceAll(end, "NOW", r.server.ResourceVersion())
		answer := func(name string) string { return map[string]string{"": state, "s0": bad}[name] }
		tap.body.Store(&answer)
		r.run()
		time.Sleep(10 * time.Second)
		r.wantPhase("the shared stream has failed", servingNamed, all[1:]...)
		time.Sleep(retried)
		r.wantPhase("tried again", servingShared, all[1:]...)
		r.wantPhase("tried again", objectcache.PhaseNotUpdated, all[0])
		r.stop()
	})
}

// Allowed is asked before the namespace is watched. Its refusal, its error, its panic and its end of the goroutine
// leave each object its own stream.
func TestSharedAllowed(t *testing.T) {
	answers := map[string]func() (bool, error){
		"no":    func() (bool, error) { return false, nil },
		"error": func() (bool, error) { return true, errors.New("no answer") },
		"panic": func() (bool, error) { panic(canary) },
		"exit":  func() (bool, error) { goruntime.Goexit(); return true, nil },
		"yes":   func() (bool, error) { return true, nil },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			options := sharedOptions(4)
			options.Shared.Namespaces = nil
			var asked atomic.Int32
			options.Shared.Allowed = func(_ context.Context, asks string) (bool, error) {
				if asks != namespace {
					t.Errorf("asked for namespace %q", asks)
				}
				asked.Add(1)
				return answer()
			}
			inSharedBubble(t, options, func(t *testing.T, r *sharedRig) {
				asked.Store(0)
				r.createAll(names(6)...)
				r.reference(names(3)...)
				if asked.Load() != 0 {
					t.Error("asked below the threshold")
				}
				r.reference(names(6)[3:]...)
				time.Sleep(joined)
				if name == "yes" {
					r.wantStreams("allowed", 1, 0)
				} else {
					r.wantStreams("not allowed", 0, 6)
				}
				r.wantValues("then", "0", names(6)...)
				if got := asked.Load(); got != 1 {
					t.Errorf("asked %d times, want once", got)
				}
				time.Sleep(time.Hour)
				if got := asked.Load(); name != "yes" && (got < 6 || got > 14) {
					t.Errorf("asked %d times in an hour, want once in 5 to 10 minutes", got)
				}
			})
		})
	}
}

// Run ends while objects are in each state.
func TestSharedStop(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, time.Second, time.Minute, 2 * time.Minute, joined} {
		inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
			r.createAll(names(6)...)
			r.reference(names(6)...)
			time.Sleep(after)
			r.stop()
			time.Sleep(time.Second)
			r.wantStreams("stopped", 0, 0)
			r.wantPhase("stopped", objectcache.PhaseStopped, names(6)...)
		})
	}
}

// A silent stream of a namespace is compared with a list. An event that it has lost is noticed.
func TestSharedSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, tap := tappedRig(t, apiserver.Options{InMemory: true, BookmarkInterval: 24 * time.Hour}, sharedOptions(4))
		all := names(6)
		r.createAll(all[1:]...)
		r.createAll("foreign")
		r.reference(all...)
		r.run()
		time.Sleep(10 * time.Minute)
		if status, _ := r.Status(namespace, all[0]); time.Since(status.LastContact) > 3*time.Minute {
			t.Errorf("LastContact: got %v ago, want a list every two minutes", time.Since(status.LastContact))
		}
		if got := r.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace}); got != 1 {
			t.Errorf("nothing was lost: got %d streams, want one", got)
		}
		if got := r.sharedRequests(); got < 1+3 || got > 1+5 {
			t.Errorf("requests: got %d, want one watch, and a list every two minutes", got)
		}
		tap.muted.Store(true)
		r.update("foreign", "1")
		r.update(all[1], "1")
		tap.muted.Store(false) // for the next stream
		time.Sleep(5 * time.Minute)
		r.wantValues("lost", "1", all[1])
		r.wantPhase("lost", absentShared, all[0])
		r.wantPhase("lost", servingShared, all[1:]...)
		r.stop()
	})
}
