// SPDX-License-Identifier: Apache-2.0

package watchlist_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/watchlist"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errReset = errors.New("connection reset")

// answer is the answer of a server with a code.
func answer(code int) error {
	return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "no", 0, true)
}

// openFailed reports an attempt that begins now and fails to open a WatchList.
func openFailed(t *testing.T, c *watchlist.Chooser, err error) (list bool) {
	t.Helper()
	return c.OpenFailed(t.Context(), unnamed{}, err, time.Now())
}

// endedEarly reports a WatchList that opens now and ends before the state.
func endedEarly(t *testing.T, c *watchlist.Chooser, err error) error {
	t.Helper()
	return c.EndedEarly(t.Context(), unnamed{}, err, time.Now())
}

// A server that does not know the request is listed at once, for all selections of the
// resource. A refusal of the caller is not such an answer, nor is a failure.
func TestOpenFailed(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"400": {answer(400), true}, "405": {answer(405), true}, "406": {answer(406), true},
		"415": {answer(415), true}, "422": {answer(422), true}, "501": {answer(501), true},
		"401": {answer(401), false}, "403": {answer(403), false}, "404": {answer(404), false},
		"410": {answer(410), false}, "429": {answer(429), false}, "500": {answer(500), false}, "503": {answer(503), false},
		"no connection": {errReset, false}, "malformed": {cache.ErrMalformed, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var server watchlist.Server
			c, other := server.NewChooser("secrets", false), server.NewChooser("secrets", false)
			if got := openFailed(t, &c, test.err); got != test.want {
				t.Errorf("list now: got %v, want %v", got, test.want)
			}
			if got := other.NextUsesList(); got != (test.want || name == "malformed") { // that is the source's fault
				t.Errorf("another selection uses a list: got %v", got)
			}
		})
	}
}

// The Node authorizer refuses requests for a fresh binding: the third refusal of a
// caller in a row, and each eighth after it, is followed by a list.
func TestRefusedCallerTriesLists(t *testing.T) {
	for _, code := range []int{403, 404} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			var server watchlist.Server
			c := server.NewChooser("secrets", false)
			var lists []int
			for i := range 30 {
				if openFailed(t, &c, answer(code)) {
					lists = append(lists, i+1)
				}
			}
			if want := []int{3, 11, 19, 27}; !slices.Equal(lists, want) {
				t.Errorf("lists after refusals: got %v, want %v", lists, want)
			}
			c.Synced(false, time.Second)
			for i := range 2 {
				if openFailed(t, &c, answer(code)) {
					t.Errorf("list after refusal %d since a read: want none before the third", i+1)
				}
			}
			if other := server.NewChooser("secrets", false); other.NextUsesList() {
				t.Error("another selection uses a list, want a WatchList")
			}
		})
	}
}

// The error of a list that is tried in place of a refused WatchList is that of the
// WatchList, unless the server throttles.
func TestListFailed(t *testing.T) {
	refusal := answer(403)
	tests := map[string]struct{ err, want error }{
		"refused":       {answer(404), refusal},
		"no connection": {errReset, refusal},
		"throttled":     {apierrors.NewTooManyRequests("slow down", 7), nil}, // itself
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var server watchlist.Server
			c := server.NewChooser("secrets", false)
			for range 3 {
				openFailed(t, &c, refusal)
			}
			want := test.want
			if want == nil {
				want = test.err
			}
			if got := c.ListFailed(test.err); !errors.Is(got, want) {
				t.Errorf("first list: got %v, want %v", got, want)
			}
			if got := c.ListFailed(test.err); !errors.Is(got, test.err) {
				t.Errorf("next list: got %v, want its own error %v", got, test.err)
			}
		})
	}
}

// A caller that may watch and not list gets WatchLists in between, unless the server
// refuses WatchList itself, or the source does not support it.
func TestRefusedList(t *testing.T) {
	tests := map[string]struct {
		prepare  func(t *testing.T, c *watchlist.Chooser)
		listOnly bool
		want     []bool // the next sessions use a list
	}{
		"WatchLists break":   {func(t *testing.T, c *watchlist.Chooser) { _ = endedEarly(t, c, io.EOF) }, false, []bool{true, false, true, false}},
		"WatchLists refused": {func(t *testing.T, c *watchlist.Chooser) { openFailed(t, c, answer(422)) }, false, []bool{true, true, true}},
		"not supported":      {func(*testing.T, *watchlist.Chooser) {}, true, []bool{true, true, true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var server watchlist.Server
			c := server.NewChooser("secrets", test.listOnly)
			test.prepare(t, &c)
			var got []bool
			for range test.want {
				list := c.NextUsesList()
				if got = append(got, list); list {
					_ = c.ListFailed(answer(403))
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("sessions with a list: got %v, want %v", got, test.want)
			}
		})
	}
}

// Only an end that the server did not explain is reported as one before the state.
func TestEndedEarly(t *testing.T) {
	tests := map[string]struct {
		err   error
		early bool // ErrEndedEarly is added
		list  bool // the next session uses a list
	}{
		"regular":       {io.EOF, true, true},
		"broken":        {io.ErrUnexpectedEOF, true, true},
		"malformed":     {cache.ErrMalformed, false, true},
		"not decodable": {apierrors.FromObject(apierrors.NewClientErrorReporter(500, "GET", "ClientWatchDecoding").AsObject(errReset)), true, true},
		"501":           {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 501}}, false, true},
		"403":           {answer(403), false, false},
		"410":           {apierrors.NewResourceExpired("too old"), false, false},
		"500":           {answer(500), false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var server watchlist.Server
			c := server.NewChooser("secrets", false)
			err := endedEarly(t, &c, test.err)
			if !errors.Is(err, test.err) || errors.Is(err, failure.ErrEndedEarly) != test.early {
				t.Errorf("error: got %v, want %v, with ErrEndedEarly: %v", err, test.err, test.early)
			}
			if got := c.NextUsesList(); got != test.list {
				t.Errorf("next session uses a list: got %v, want %v", got, test.list)
			}
		})
	}
}

// After an attempt without an answer in time, each second one may take longer, up to
// four minutes. A fast answer ends that, and a slow one does not.
func TestAnswerTimeout(t *testing.T) {
	var server watchlist.Server
	c := server.NewChooser("secrets", false)
	minutes := func(n int) (all []float64) {
		for range n {
			all = append(all, c.AnswerTimeout().Minutes())
			c.SessionEnded(failure.ErrNoAnswer, true, time.Now())
		}
		return all
	}
	if got, want := minutes(9), []float64{1, 1, 2, 1, 4, 1, 4, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("time-outs in minutes: got %v, want %v", got, want)
	}
	c.SessionEnded(errReset, true, time.Now())
	c.Synced(false, 50*time.Second)
	c.SessionEnded(failure.ErrNoAnswer, true, time.Now())
	if got := c.AnswerTimeout(); got != 4*time.Minute {
		t.Errorf("time-out after a slow answer: got %v, want 4m", got)
	}
	c.Synced(false, time.Second)
	if got, want := minutes(3), []float64{1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("time-outs after a fast answer: got %v, want %v", got, want)
	}
}

// While a caller waits, an attempt without an answer is given up after 5 s, and after twice
// as long each time. That makes no attempt longer that no caller waits for.
func TestPatience(t *testing.T) {
	var server watchlist.Server
	c := server.NewChooser("secrets", false)
	var got []float64
	for range 6 {
		got = append(got, c.Patience().Seconds())
		c.SessionEnded(failure.ErrGivenUp, true, time.Now())
	}
	if want := []float64{5, 10, 20, 40, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("patience in seconds: got %v, want %v", got, want)
	}
	if got := c.AnswerTimeout(); got != time.Minute {
		t.Errorf("time-out without a caller: got %v, want a minute", got)
	}
	c.Synced(false, 10*time.Second)
	if got := c.Patience(); got != time.Minute {
		t.Errorf("patience after a slow answer: got %v, want a minute", got)
	}
	c.Synced(false, time.Second)
	if got := c.Patience(); got != 5*time.Second {
		t.Errorf("patience after a fast answer: got %v, want 5s", got)
	}
}

// Where WatchLists fail with 5xx, 429 or a lost connection, a list follows two of them in
// a selection that was never read, and four of them in a resource. Without a connection a
// list would fail as well, and a server that does not answer has not refused.
func TestFailedWatchLists(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errReset}
	tests := map[string]struct {
		err  error
		read bool // the selection has been read
		want []int
	}{
		"500":           {answer(500), false, []int{2, 4, 6, 8}},
		"503":           {answer(503), false, []int{2, 4, 6, 8}},
		"429":           {answer(429), false, []int{2, 4, 6, 8}},
		"reset":         {errReset, false, []int{2, 4, 6, 8}},
		"reset, read":   {errReset, true, []int{4, 8}},
		"no connection": {dial, false, nil},
		"no answer":     {failure.ErrNoAnswer, false, nil},
		"401":           {answer(401), false, nil},
		"410":           {answer(410), false, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var server watchlist.Server
			c := server.NewChooser("secrets", false)
			if test.read {
				c.Synced(false, time.Second)
			}
			var lists []int
			for i := range 8 {
				if openFailed(t, &c, test.err) {
					t.Errorf("list in place of WatchList %d: want it in the next session", i+1)
				}
				if c.NextUsesList() {
					lists = append(lists, i+1)
				}
			}
			if !slices.Equal(lists, test.want) {
				t.Errorf("lists after failures: got %v, want %v", lists, test.want)
			}
			other := server.NewChooser("configmaps", false)
			if other.NextUsesList() {
				t.Error("another resource uses a list")
			}
		})
	}
}

// A list that works where WatchLists and the watch after it fail proves that watches do
// not work: of the resource, if no other WatchList has worked meanwhile. The first watch
// that works ends that.
func TestWatchFailedWhereWatchListsDo(t *testing.T) {
	for name, othersWork := range map[string]bool{"all": false, "one selection": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var server watchlist.Server
				c, other := server.NewChooser("secrets", false), server.NewChooser("secrets", false)
				for range 2 {
					openFailed(t, &c, answer(503))
				}
				time.Sleep(time.Second)
				if othersWork {
					other.Synced(false, time.Second)
				}
				if !c.NextUsesList() {
					t.Fatal("after two failures: got a WatchList")
				}
				c.Synced(true, time.Second)
				if c.WatchAnswered(answer(503)) || !c.Polls() || !c.NextUsesList() {
					t.Error("the watch failed: got no polling by lists")
				}
				if c.Synced(true, time.Second) {
					t.Error("a list while watches fail: got well")
				}
				if got := other.NextUsesList(); got == othersWork {
					t.Errorf("another selection uses a list: got %v, want %v", got, !othersWork)
				}
				if !c.WatchAnswered(nil) || c.Polls() || c.NextUsesList() || other.NextUsesList() {
					t.Error("the watch works: got no recovery, or a list")
				}
			})
		})
	}
}

// While the watch after a list is refused, the selection is listed only, the reads do
// not count as well, and the watch is tried again after a minute.
func TestWatchRefusedAfterAList(t *testing.T) {
	for _, code := range []int{403, 404, 501} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var server watchlist.Server
				c := server.NewChooser("secrets", true)
				if err := c.WatchRefusal(); err != nil {
					t.Errorf("at first: got %v, want none", err)
				}
				refusal := answer(code)
				if c.WatchAnswered(refusal) {
					t.Error("refused: got a recovery")
				}
				for range 3 {
					if err := c.WatchRefusal(); !errors.Is(err, refusal) || !c.NextUsesList() {
						t.Errorf("within a minute: got %v, want %v, and a list", err, refusal)
					}
					if c.Synced(true, time.Second) {
						t.Error("a list while the watch is refused: got well")
					}
					time.Sleep(19 * time.Second)
				}
				time.Sleep(3 * time.Second)
				if err := c.WatchRefusal(); err != nil {
					t.Errorf("after a minute: got %v, want the watch tried", err)
				}
				if !c.WatchAnswered(nil) {
					t.Error("allowed: got no recovery")
				}
				if c.WatchAnswered(nil) || !c.Synced(true, time.Second) {
					t.Error("after that: got another recovery, or a read that is not well")
				}
			})
		})
	}
}

// A failure of the watch after a list that is no refusal changes nothing.
func TestWatchFailedAfterAList(t *testing.T) {
	for name, err := range map[string]error{"no connection": errReset, "500": answer(500), "429": answer(429), "401": answer(401)} {
		var server watchlist.Server
		c := server.NewChooser("secrets", false)
		if c.WatchAnswered(err) || c.WatchRefusal() != nil || c.NextUsesList() || !c.Synced(true, time.Second) {
			t.Errorf("%s: got a change, want none", name)
		}
	}
}

type unsupporting struct{}

func (unsupporting) IsWatchListSemanticsUnSupported() bool { return true }

func TestUnsupported(t *testing.T) {
	if watchlist.Unsupported(struct{}{}) || !watchlist.Unsupported(unsupporting{}) {
		t.Error("got the wrong answer for a source, want what it reports")
	}
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	if !watchlist.Unsupported(struct{}{}) {
		t.Error("with the feature gate off: got supported")
	}
}
