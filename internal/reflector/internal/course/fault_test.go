// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

var errReset = errors.New("connection reset")

// answer is the answer of a server with a code.
func answer(code int) error {
	return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "no", 0, true)
}

func TestFaultOf(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		answered bool
		want     course.Fault
	}{
		"400": {answer(400), false, course.Unknown}, "405": {answer(405), false, course.Unknown}, "406": {answer(406), false, course.Unknown},
		"415": {answer(415), false, course.Unknown}, "422": {answer(422), false, course.Unknown}, "501": {answer(501), false, course.Unknown},
		"401": {answer(401), false, course.Refused}, "403": {answer(403), false, course.Refused}, "404": {answer(404), false, course.Refused},
		"410": {answer(410), false, course.Failing}, "429": {answer(429), false, course.Throttled},
		"500": {answer(500), false, course.Failing}, "503": {answer(503), false, course.Failing}, "504": {answer(504), false, course.Failing},
		"reset":           {errReset, false, course.Failing},
		"dial":            {&net.OpError{Op: "dial", Err: errReset}, false, course.NoFault},
		"read":            {&net.OpError{Op: "read", Err: errReset}, false, course.Failing},
		"no answer":       {failure.ErrNoAnswer, false, course.Hung},
		"malformed":       {cache.ErrMalformed, false, course.Broken},
		"store":           {failure.ErrStore, false, course.NoFault},
		"ended":           {io.EOF, true, course.Broken},
		"broken":          {io.ErrUnexpectedEOF, true, course.Broken},
		"not decodable":   {apierrors.FromObject(apierrors.NewClientErrorReporter(500, "GET", "ClientWatchDecoding").AsObject(errReset)), true, course.Broken},
		"501 in a stream": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 501}}, true, course.Unknown},
		"500 in a stream": {answer(500), true, course.Failing},
	} {
		if got := course.FaultOf(failure.From(fmt.Errorf("wrapped: %w", test.err)), test.answered); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// The state may take a minute. A GET may take 15 s, or longer where the server is far.
func TestAnswerTimeout(t *testing.T) {
	for patience, get := range map[time.Duration]time.Duration{
		5 * time.Second: 15 * time.Second, 30 * time.Second: 30 * time.Second, 2 * time.Minute: time.Minute,
	} {
		for verb, want := range map[course.Verb]time.Duration{
			course.WatchList: time.Minute, course.List: time.Minute, course.Metadata: time.Minute, course.Get: get,
		} {
			if got := verb.AnswerTimeout(patience); got != want {
				t.Errorf("verb %d, with a patience of %v: got %v, want %v", verb, patience, got, want)
			}
		}
	}
}

// While a caller waits, an attempt without an answer is given up after 5 s, and after twice as long each time, up to a
// minute. An answer ends that. Then it is twice as long as that took, if it was slow.
func TestPatience(t *testing.T) {
	now := moment.Moment(time.Hour)
	v := newVerbWorld(course.NoGets).of("a")
	var got []float64
	for range 6 {
		got = append(got, v.Patience(5*time.Second).Seconds())
		v.NoAnswer()
	}
	if want := []float64{5, 10, 20, 40, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("patience in seconds: got %v, want %v", got, want)
	}
	v.Stored(course.WatchList, 10*time.Second, 5*time.Second, now)
	if got := v.Patience(5 * time.Second); got != 20*time.Second {
		t.Errorf("patience after an answer of 10 s: got %v, want 20s", got)
	}
	v.NoAnswer()
	if got := v.Patience(5 * time.Second); got != 40*time.Second {
		t.Errorf("patience after no answer since then: got %v, want 40s", got)
	}
	v.Stored(course.WatchList, time.Second, 5*time.Second, now)
	if got := v.Patience(5 * time.Second); got != 5*time.Second {
		t.Errorf("patience after a fast answer: got %v, want 5s", got)
	}
}
