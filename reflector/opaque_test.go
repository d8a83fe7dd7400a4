// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

var errQuoting = fmt.Errorf("Object 'Kind' is missing in '%s'", canary) //nolint:staticcheck // client-go's words

// quotingSources are those whose errors quote an object, by way of decoders.
func quotingSources() map[string]listwatch.Source {
	page := apierrors.NewGenericServerResponse(502, http.MethodGet, schema.GroupResource{Resource: "secrets"}, "", canary, 0, true)
	listed := func(list runtime.Object, err error) listOnly {
		return listOnly{&fakeSource{
			onList:  func(metav1.ListOptions) (runtime.Object, error) { return list, err },
			onWatch: streams(opens(undecoded(canary))),
		}}
	}
	both := func(open func() (listwatch.Stream, error)) *fakeSource {
		return &fakeSource{onList: listed(nil, errQuoting).onList, onWatch: streams(open)}
	}
	return map[string]listwatch.Source{
		"list":                 listed(nil, errQuoting),
		"list, wrapped":        listed(nil, fmt.Errorf("x: %w", errQuoting)),
		"list, malformed":      listed(nil, fmt.Errorf("%w: %w", cache.ErrMalformed, errQuoting)),
		"list, a page":         listed(nil, page),
		"list, then an event":  listed(list("7", *secret("5")), nil),
		"watch":                both(fails(errQuoting)),
		"watch, a page":        both(fails(fmt.Errorf("x: %w", page))),
		"Next":                 both(breaks(errQuoting)),
		"Next, end of it":      both(breaks(fmt.Errorf("%w: %w", errQuoting, io.ErrUnexpectedEOF))),
		"event":                both(opens(undecoded(canary))),
		"event, after a state": both(opens(append(state(secret("5"), "7"), undecoded(canary))...)),
		"event of a list":      both(opens(event(watch.Added, list("7", *secret("5"))))),
	}
}

// Issue 8: client-go's decoding errors quote the object. None is seen in a
// status, a gate's status, or a log.
func TestIssue8_ErrorsQuoteNoObject(t *testing.T) {
	for name, source := range quotingSources() {
		t.Run(name, func(t *testing.T) {
			texts := map[string]string{}
			texts["log"] = logged(t, "10", func() {
				synctest.Test(t, func(t *testing.T) {
					gate := reflector.NewGate(reflector.GateOptions{})
					r := start(t, source, reflector.Options{Gate: gate})
					start(t, source, reflector.Options{Gate: gate}) // to prove an outage to the first
					after(5 * time.Minute)
					if err := r.Status().LastError; err == nil {
						t.Error("status: got no error")
					} else {
						texts["error"] = fmt.Sprintf("%v %+v %#v", err, err, err)
					}
					texts["gate"] = fmt.Sprintf("%v %+v", gate.Status().Cause, gate.Status().Cause)
				})
			})
			for where, text := range texts {
				for _, form := range []string{"canary", "Y2FuYXJ5"} {
					if strings.Contains(text, form) {
						t.Errorf("%s: got object data (%q) in:\n%s", where, form, text)
					}
				}
			}
			if !strings.Contains(texts["log"], "Cannot read the object") {
				t.Errorf("log: got %q, want the failure in it", texts["log"])
			}
		})
	}
}

// What cannot quote an object keeps its text, and whatever an error is can be
// asked for.
func TestHarmlessErrorsAreShown(t *testing.T) {
	sentinel := errors.New("of the source")
	tests := map[string]struct {
		err  error
		want string
	}{
		"status":     {forbidden(), "secrets"},
		"too large":  {tooLarge(), "Too large resource version"},
		"connection": {&url.Error{Op: "Get", URL: "https://server", Err: syscall.ECONNREFUSED}, "connection refused"},
		"wrapped":    {fmt.Errorf("%w - error from a previous attempt: %w", &url.Error{Op: "Get", Err: io.EOF}, io.EOF), `Get "": EOF`},
		"broken off": {io.ErrUnexpectedEOF, "unexpected EOF"},
		"a page":     {refusal(502), "502 Bad Gateway"},
		"any other":  {fmt.Errorf("x: %w", sentinel), "*fmt.wrapError"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, &fakeSource{onWatch: streams(fails(test.err))}, reflector.Options{})
				err := r.Status().LastError
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error: got %v, want %q in it", err, test.want)
				}
				if got, want := failure.Of(err), failure.Of(test.err); got != want {
					t.Errorf("class: got %s, want %s", got, want)
				}
				if errors.Is(test.err, sentinel) != errors.Is(err, sentinel) {
					t.Errorf("errors.Is: got another answer for %v than for what the source returned", err)
				}
				if apierrors.ReasonForError(err) != apierrors.ReasonForError(test.err) {
					t.Errorf("reason: got %q, want %q", apierrors.ReasonForError(err), apierrors.ReasonForError(test.err))
				}
			})
		})
	}
}
