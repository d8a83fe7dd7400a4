// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

func TestStatusOfRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(
			fails(errDown), fails(forbidden()), fails(forbidden()), fails(errDown),
			opens(state(secret("5"), "7")...),
		), reflector.Options{})
		var refused []bool
		for {
			status := r.Status()
			if status.Failures == 0 {
				break
			}
			for len(refused) < status.Failures {
				refused = append(refused, !status.RefusedSince.IsZero())
			}
			after(10 * time.Millisecond)
		}
		if got, want := fmt.Sprint(refused), "[false true true false]"; got != want {
			t.Errorf("refused after each failure: got %s, want %s", got, want)
		}
		got := r.Status()
		if !got.Synced || len(r.source.seen()) != 5 || got.ResourceVersion != "7" || got.LastContact.IsZero() {
			t.Errorf("status: got %+v, want synced by the fifth attempt, at 7", got)
		}
		if !got.RefusedSince.IsZero() {
			t.Errorf("status: got %+v, want no refusal once synced", got)
		}
		if got.LastError == nil || got.LastErrorTime.IsZero() || got.Failures != 0 {
			t.Errorf("status: got %+v, want the last error kept and no failure", got)
		}
	})
}

func TestStatusOfTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		listed, watched := make(chan struct{}), make(chan struct{})
		stream := newStream()
		opened := false
		source := &fakeSource{
			onList: func(metav1.ListOptions) (runtime.Object, error) { <-listed; return list("7", secret("5")), nil },
			onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
				if opened {
					return nil, errors.New("reset")
				}
				<-watched
				opened = true
				return stream, nil
			},
		}
		asked := time.Now()
		r := start(t, listing(source), reflector.Options{})
		after(3 * time.Second)
		if got := r.Status(); got.Streaming || !got.AskedAt.Equal(asked) {
			t.Errorf("while it lists: got %+v, want it asked for at %v", got, asked)
		}
		close(listed)
		after(time.Second)
		if got := r.Status(); got.Streaming || !got.Synced || !got.AskedAt.IsZero() || !got.NotUpdatedSince.Equal(got.LastContact) {
			t.Errorf("before the watch is open: got %+v, want it synced, and no stream", got)
		}
		close(watched)
		after(time.Second)
		if got := r.Status(); !got.Streaming || !got.NotUpdatedSince.IsZero() {
			t.Errorf("on an open stream: got %+v, want it streaming", got)
		}
		stream.finish(io.EOF)
		after(time.Second)
		if got := r.Status(); got.Streaming {
			t.Errorf("after its end: got %+v, want no stream", got)
		}
	})
}

// A 404 means that the path is not served. It is a refusal, and LastError is the
// answer itself.
func TestStatusOfAPathThatIsNotServed(t *testing.T) {
	notServed := apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", resource, key.Name, "default backend", 0, true)
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(fails(notServed)), reflector.Options{})
		after(time.Second)
		status := r.Status()
		if !apierrors.IsNotFound(status.LastError) {
			t.Errorf("last error: got %#v, want the 404", status.LastError)
		}
		if got := failure.Of(status.LastError); got != failure.Refused || status.RefusedSince.IsZero() {
			t.Errorf("class: got %s, want Refused", got)
		}
	})
}

// The failure of several other reflectors is in the status of one that waits, without
// the URL that they asked for.
func TestStatusHasTheFailureOfOthers(t *testing.T) {
	request := &url.Error{Op: "Get", URL: "https://example.test/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dtls", Err: errDown}
	type test struct {
		err  error
		want bool
	}
	tests := map[string]test{
		"no connection":    {errDown, true},
		"no connection, *": {request, true},
		"503":              {unavailable(), false}, // the server answers: a new reflector makes an attempt
		"500":              {unreadable(), false},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			c := newCrowd(t, reflector.GateOptions{}, atOnce(nil))
			c.add(5, "secrets")
			after(time.Second)
			c.serveAll(atOnce(test.err))
			c.cutAll(nil) // an outage takes several failures of members that were synced
			after(time.Second)
			c.serveAll(taking(time.Hour, failing(test.err)))
			c.add(1, "secrets")
			status := c.members[5].Status()
			if got := status.Failures > 0; got != test.want {
				t.Errorf("status: got %+v, want a failure: %v", status, test.want)
			}
			if status.LastError != nil && strings.Contains(status.LastError.Error(), "tls") {
				t.Errorf("error: got %v, want it without the name of another object", status.LastError)
			}
		})
	})
}

// The failure of a single other reflector is not in the status.
func TestStatusHasNoFailureOfASingleOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 1}, atOnce(errDown))
		c.add(1, "secrets")
		c.serveAll(taking(20*time.Second, failing(errDown)))
		c.add(2, "secrets") // one asks, one waits
		if got := c.members[2].Status(); got.Failures != 0 || got.LastError != nil {
			t.Errorf("status of the one that waits: got %+v, want no failure", got)
		}
	})
}

// The first failure, each failure of another class, and their end are lines at level 0. So is one line about all short
// streams. Nothing else is: client-go's Reflector warns there about every short or silent stream.
func TestLinesAtLevel0(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		away, short := fails(errDown), breaks(io.EOF, state(secret("5"), "7")...)
		tests := map[string]struct {
			answers []watchAnswer
			want    int
		}{
			"short streams": {[]watchAnswer{short}, 1}, // that streams last for a short time
			"failing":       {[]watchAnswer{away}, 2},  // and the begin of an outage
			// With the begin of the first outage, its end, and the begin of the second.
			"other classes": {[]watchAnswer{away, away, fails(forbidden()), fails(forbidden()), away}, 6},
			// With the end of the first failure.
			"failing again": {[]watchAnswer{away, away, short, away}, 6},
			// A line for the WatchList, its end by the list, and one for the watch after the list.
			"watch refused": {[]watchAnswer{fails(forbidden())}, 3},
		}
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				log := logged(t, "0", func() {
					synctest.Test(t, func(t *testing.T) {
						start(t, &fakeSource{onList: lists(brings("7", secret("5"))), onWatch: streams(test.answers...)}, reflector.Options{})
						after(10 * time.Minute)
					})
				})
				if got := strings.Count(log, "\n"); got != test.want {
					t.Errorf("lines at level 0: got %d, want %d:\n%s", got, test.want, log)
				}
			})
		}
	})
}

// The line about a stream that has ended without a failure says why another is opened.
func TestLineOfAnEndedStream(t *testing.T) {
	tests := map[string]struct {
		first watchAnswer
		then  func(*rig)
		want  string
	}{
		"ended by the server": {breaks(io.EOF, state(secret("5"), "7")...), func(*rig) {}, "ended"},
		"demanded":            {opens(state(secret("5"), "7")...), func(r *rig) { r.Refresh() }, "demanded"},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				log := logged(t, "4", func() {
					synctest.Test(t, func(t *testing.T) {
						r := start(t, watching(test.first, opens(state(secret("5"), "7")...)), reflector.Options{})
						test.then(r)
						after(time.Minute)
					})
				})
				want := fmt.Sprintf("\"Stream ended, opening it again\" reflector=\"reflector\" reason=%q", test.want)
				if strings.Count(log, "Stream ended") != 1 || !strings.Contains(log, want) {
					t.Errorf("log: got %q, want one line with %s", log, want)
				}
			})
		}
	})
}

// Lines at level 0 are bounded, however many reflectors fail.
func TestLinesAtLevel0AreBounded(t *testing.T) {
	skipCrowd(t)
	log := logged(t, "0", func() {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, reflector.GateOptions{}, atOnce(forbidden()))
			c.add(1000, "secrets")
			after(time.Minute)
		})
	})
	if got := strings.Count(log, "\n"); got < 5 || got > 20 {
		t.Errorf("lines at level 0 in a minute: got %d, want 5 to 20", got)
	}
}
