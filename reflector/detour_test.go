// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// refusal is how a server, or a proxy, answers with a code.
func refusal(code int) error {
	return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "no", 0, true)
}

// undecoded is the event that client-go's StreamWatcher makes of what it cannot
// decode.
func undecoded(text string) watch.Event {
	return event(watch.Error, apierrors.NewClientErrorReporter(500, http.MethodGet, "ClientWatchDecoding").AsObject(errors.New(text)))
}

// badWatchLists are servers that do lists and plain watches, and not WatchList.
// worked says that one has worked before.
var badWatchLists = map[string]func() (listwatch.Stream, error){
	"400":                   fails(refusal(400)),
	"404":                   fails(refusal(404)),
	"405":                   fails(refusal(405)),
	"406":                   fails(refusal(406)),
	"415":                   fails(refusal(415)),
	"422":                   fails(refusal(422)),
	"501":                   fails(refusal(501)),
	"403":                   fails(forbidden()),
	"501 in the stream":     opens(event(watch.Error, &metav1.Status{Code: 501})),
	"ends":                  breaks(io.EOF),
	"ends after an event":   breaks(io.EOF, event(watch.Added, secret("5"))),
	"ends within an event":  breaks(io.ErrUnexpectedEOF, event(watch.Added, secret("5"))),
	"reset":                 breaks(errors.New("stream error: INTERNAL_ERROR")),
	"no bookmark":           opens(event(watch.Added, secret("5"))),
	"not decodable":         opens(undecoded("unexpected token")),
	"not an event":          opens(event("NEWS", secret("5"))),
	"a foreign object":      opens(event(watch.Added, &metav1.Status{})),
	"panics":                panicsAfter(event(watch.Added, secret("5"))),
	"panics while it opens": panicsWith(canary),
}

// slow has a source take a while for each answer, as the network does.
func slow(takes time.Duration, open func() (listwatch.Stream, error)) func() (listwatch.Stream, error) {
	return func() (listwatch.Stream, error) { time.Sleep(takes); return open() }
}

// throng is many reflectors that share a gate, each with a source of its own.
type throng []*rig

func newThrong(t *testing.T, n int, source func() *fakeSource) throng {
	t.Helper()
	gate := reflector.NewGate(reflector.GateOptions{})
	var all throng
	for range n {
		all = append(all, start(t, source(), reflector.Options{Gate: gate, Resource: "secrets"}))
	}
	return all
}

// count is how many requests of a kind all have made: "list", "watch", or
// "WatchList".
func (c throng) count(kind string) (count int) {
	for _, r := range c {
		for _, request := range r.source.seen() {
			verb := request.verb
			if request.options.SendInitialEvents != nil {
				verb = "WatchList"
			}
			if verb == kind {
				count++
			}
		}
	}
	return count
}

func (c throng) all() int { return c.count("list") + c.count("watch") + c.count("WatchList") }

func (c throng) synced() (count int) {
	for _, r := range c {
		if r.slot.Load().Exists && r.Status().Failures == 0 {
			count++
		}
	}
	return count
}

func (c throng) stop() {
	for _, r := range c {
		r.stop()
	}
}

// sizeOf is how many reflectors a case has: many for those that differ most.
func sizeOf(name string, many int) int {
	switch name {
	case "403", "405", "ends", "ends within an event":
		return many
	}
	return many / 20
}

// Issue 8: a server that ends each WatchList before its bookmark, or refuses it in
// a way of its own, served nobody, at a thousand requests a second. It does lists.
func TestIssue8_WhereWatchListFailsListsServe(t *testing.T) {
	for name, open := range badWatchLists {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := sizeOf(name, 1000)
				c := newThrong(t, n, func() *fakeSource { return withoutWatchList(slow(10*time.Millisecond, open)) })
				after(time.Minute)
				if got := c.synced(); got != n {
					t.Errorf("synced after a minute: got %d of %d, of which the first: %+v", got, n, c[0].Status())
				}
				if got := c.all(); got > 5*n {
					t.Errorf("requests in a minute: got %d (%d lists, %d watches), want no more than 5 for each", got, c.count("list"), c.count("watch"))
				}
				c.stop()
			})
		})
	}
}

// Issue 8: the same, where WatchList had worked until then: the server was
// changed under its clients, or another one took over.
func TestIssue8_WhereWatchListNoLongerWorks(t *testing.T) {
	for name, open := range badWatchLists {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := sizeOf(name, 300)
				changed := make(chan struct{})
				works := func() (listwatch.Stream, error) {
					stream := newStream(state(secret("5"), "7")...)
					go func() { <-changed; stream.finish(io.EOF) }()
					return stream, nil
				}
				c := newThrong(t, n, func() *fakeSource { return withoutWatchList(streamsOf(works, slow(10*time.Millisecond, open))) })
				before := c.all()
				if got := c.synced(); got != n || before != n {
					t.Fatalf("synced: got %d by %d requests, want %d by one each", got, before, n)
				}
				close(changed)
				after(3 * time.Minute)
				if got := c.synced(); got != n {
					t.Errorf("synced three minutes after the change: got %d of %d, of which the first: %+v", got, n, c[0].Status())
				}
				if got := c.all() - before; got > 8*n {
					t.Errorf("requests after the change: got %d (%d lists), want no more than 8 for each", got, c.count("list"))
				}
				c.stop()
			})
		})
	}
}

// streamsOf serves one stream after the other, as streams does.
func streamsOf(all ...func() (listwatch.Stream, error)) func() (listwatch.Stream, error) {
	serve := streams(all...)
	return func() (listwatch.Stream, error) { return serve(metav1.ListOptions{}) }
}

// A connection that is cut under many openings is no reason to do without
// WatchList, neither for who had the others nor for those whose it was.
func TestCutDuringInitialEventsKeepsWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		good := func() (listwatch.Stream, error) { return newStream(state(secret("5"), "7")...), nil }
		var first, cut throng
		first = newThrong(t, n, func() *fakeSource { return withoutWatchList(good) })
		gate, now := first[0].gate, make(chan struct{})
		broken := func() (listwatch.Stream, error) {
			select {
			case <-now:
				return good()
			default:
			}
			stream := newStream(event(watch.Added, secret("5")))
			go func() { <-now; stream.finish(io.ErrUnexpectedEOF) }()
			return stream, nil
		}
		for range n {
			cut = append(cut, start(t, withoutWatchList(broken), reflector.Options{Gate: gate, Resource: "secrets"}))
		}
		after(time.Second)
		if got := gate.Status().Opening; got < 10 {
			t.Fatalf("opening: got %d, want many", got)
		}
		close(now)
		synctest.Wait()
		if got := gate.Status(); got.Cause != nil {
			t.Errorf("gate: got %+v, want no outage of a server that answers", got)
		}
		after(10 * time.Second)
		if got := cut.synced(); got != n {
			t.Errorf("synced: got %d of %d", got, n)
		}
		later := throng{start(t, withoutWatchList(good), reflector.Options{Gate: gate, Resource: "secrets"})}
		if later.count("WatchList") != 1 || later.count("list") != 0 {
			t.Errorf("a later reflector: got %d WatchLists and %d lists, want one WatchList", later.count("WatchList"), later.count("list"))
		}
		first.stop()
		cut.stop()
		later.stop()
	})
}

// One object that cannot be read by a WatchList is no reason for others to do
// without.
func TestOneBadObjectKeepsWatchListForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := func() (listwatch.Stream, error) { return newStream(state(secret("5"), "7")...), nil }
		c := newThrong(t, 1, func() *fakeSource { return withoutWatchList(good) })
		source := withoutWatchList(opens(undecoded("bad")))
		source.onList = func(metav1.ListOptions) (runtime.Object, error) { return nil, cache.ErrMalformed }
		bad := start(t, source, reflector.Options{Gate: c[0].gate, Resource: "secrets"})
		after(30 * time.Minute)
		later := throng{start(t, withoutWatchList(good), reflector.Options{Gate: c[0].gate, Resource: "secrets"})}
		if later.count("WatchList") != 1 || later.synced() != 1 {
			t.Errorf("a later reflector: got %+v after %d WatchLists, want it synced by one", later[0].Status(), later.count("WatchList"))
		}
		if bad.Status().Failures < 10 {
			t.Errorf("the bad object: got %+v, want it to have failed often", bad.Status())
		}
		c.stop()
		later.stop()
		bad.stop()
	})
}

// Where list is allowed and watch is not, the listed state is served and kept up
// to date at the pace of the back-off, and the status says what is refused.
func TestListAllowedAndWatchNot(t *testing.T) {
	for name, err := range map[string]error{"403": forbidden(), "404": refusal(404), "501": refusal(501)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := sizeOf(name, 1000)
				var version atomic.Pointer[string]
				var allowed atomic.Bool
				version.Store(ptr.To("5"))
				c := newThrong(t, n, func() *fakeSource {
					source := withoutWatchList(nil)
					source.onList = func(metav1.ListOptions) (runtime.Object, error) { return list("9", *secret(*version.Load())), nil }
					source.onWatch = func(options metav1.ListOptions) (listwatch.Stream, error) {
						switch {
						case !allowed.Load():
							return nil, err
						case options.SendInitialEvents != nil:
							return newStream(state(secret(*version.Load()), "9")...), nil
						}
						return newStream(), nil
					}
					return source
				})
				after(time.Minute)
				for i, r := range c {
					got := r.Status()
					if !r.slot.Load().Exists || got.Failures == 0 || failure.Of(got.LastError) != failure.Of(err) {
						t.Fatalf("reflector %d: got %+v, want it to serve the list and to fail with %v", i, got, err)
					}
				}
				before := c.all()
				after(2 * time.Minute)
				if got, most := c.all()-before, n*2*60/7; got > most {
					t.Errorf("requests in two minutes: got %d, want no more than %d: one each 7.5 to 15 s, and a watch a minute", got, most)
				}
				version.Store(ptr.To("6"))
				after(max(16*time.Second, time.Duration(n)*time.Second/15)) // they share 20 attempts a second
				for i, r := range c {
					if got := r.slot.Load(); got.ResourceVersion != "6" {
						t.Fatalf("reflector %d a while after a change: got %+v, want it read", i, got)
					}
				}
				allowed.Store(true)
				after(80*time.Second + time.Duration(n)*time.Second/10)
				if got := c.synced(); got != n {
					t.Errorf("watching once that is allowed: got %d of %d, of which the first: %+v", got, n, c[0].Status())
				}
				c.stop()
			})
		})
	}
}

// As long as the watch is refused, no moment looks as if all were well.
func TestRefusedWatchIsNeverWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r atomic.Pointer[rig]
		var well atomic.Int32
		source := listOnly{&fakeSource{
			onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("9", *secret("5")), nil },
			onWatch: streams(slow(time.Second, fails(forbidden()))),
		}}
		r.Store(start(t, source, reflector.Options{OnChange: func() {
			if r := r.Load(); r != nil && r.Status().Failures == 0 {
				well.Add(1)
			}
		}}))
		after(time.Minute)
		well.Store(0)
		after(30 * time.Minute)
		if got := r.Load().Status(); well.Load() != 0 || got.Failures < 50 || failure.Of(got.LastError) != failure.Forbidden || !got.Synced {
			t.Errorf("status: got %+v, and well %d times, want it synced, and refused all the time", got, well.Load())
		}
	})
}

// Who may neither list nor watch does not cost twice the requests for it.
func TestForbiddenIsNotTwiceTheRequests(t *testing.T) {
	for name, err := range map[string]error{"403": forbidden(), "404": refusal(404), "401": apierrors.NewUnauthorized("no")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := sizeOf(name, 1000)
				c := newThrong(t, n, func() *fakeSource {
					return &fakeSource{
						onList:  func(metav1.ListOptions) (runtime.Object, error) { return nil, err },
						onWatch: streams(fails(err)),
					}
				})
				after(3 * time.Minute)
				lists, watches := c.count("list"), c.count("WatchList")
				if lists > watches/4 || c.count("watch") > 0 {
					t.Errorf("requests: got %d lists beside %d WatchLists and %d watches, want few, and none", lists, watches, c.count("watch"))
				}
				// Failing reflectors share 20 attempts a second; a dead token is probed.
				least := map[string]int{"403": 3 * n, "404": 15 * n, "401": 30}[name]
				if watches < least {
					t.Errorf("WatchLists: got %d in three minutes, want at least %d", watches, least)
				}
				c.stop()
			})
		})
	}
}

// Who may watch and not list is not kept from it by what others found.
func TestWatchAllowedAndListNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		broken := start(t, withoutWatchList(breaks(io.EOF)), reflector.Options{Gate: gate, Resource: "secrets"})
		source := withoutWatchList(opens(state(secret("5"), "7")...))
		source.onList = func(metav1.ListOptions) (runtime.Object, error) { return nil, forbidden() }
		r := start(t, source, reflector.Options{Gate: gate, Resource: "secrets"})
		after(time.Second)
		if got := r.Status(); !got.Synced || got.Failures != 0 || len(source.seen()) != 2 {
			t.Errorf("status: got %+v after %d requests, want it synced by a WatchList after a list", got, len(source.seen()))
		}
		broken.stop()
		r.stop()
	})
}

// The error is that of the WatchList, whatever the list that was tried failed at.
func TestRefusalIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(fails(forbidden()))}, reflector.Options{})
		for range 100 {
			after(time.Second)
			if got := r.Status(); failure.Of(got.LastError) != failure.Forbidden || got.RefusedSince.IsZero() {
				t.Fatalf("status: got %+v, want it refused all the time", got)
			}
		}
		if got := (throng{r}).count("list"); got == 0 {
			t.Error("lists: got none, want one tried")
		}
	})
}
