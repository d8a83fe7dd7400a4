// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is object data: it must appear nowhere.
const canary = "canary-canary-canary"

var resource = schema.GroupResource{Resource: "secrets"}

// errQuoting has the text of client-go's decoders.
var errQuoting = fmt.Errorf("Object 'Kind' is missing in '%s'", canary) //nolint:staticcheck // client-go's words

// undecoded is the error that client-go delivers in place of an event that it cannot
// decode.
func undecoded() error {
	return apierrors.FromObject(apierrors.NewClientErrorReporter(500, http.MethodGet, "ClientWatchDecoding").AsObject(errQuoting))
}

// htmlPage is the answer of a proxy, with the text of the page.
func htmlPage() error {
	return apierrors.NewGenericServerResponse(502, http.MethodGet, resource, "", canary, 7, true)
}

func TestErrorHidesText(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string // in the text
	}{
		"decoder":                    {errQuoting, "*errors.errorString"},
		"wrapped":                    {fmt.Errorf("x: %w", errQuoting), "*fmt.wrapError"},
		"wrapped with an EOF":        {fmt.Errorf("%w: %w", errQuoting, io.ErrUnexpectedEOF), "*fmt.wrapErrors"},
		"joined with a cancellation": {errors.Join(errQuoting, context.Canceled), "*errors.joinError"},
		"around a connection error":  {fmt.Errorf("%w: %w", errQuoting, syscall.ECONNRESET), "connection reset"},
		"around a request":           {fmt.Errorf("%s: %w", canary, &url.Error{Op: "Get", URL: "https://server", Err: io.EOF}), "https://server"},
		"an event not decoded":       {undecoded(), "500 Internal Server Error"},
		"an HTML page":               {htmlPage(), "502 Bad Gateway"},
		"an HTML page, wrapped":      {fmt.Errorf("%s: %w", canary, htmlPage()), "502 Bad Gateway"},
		"around a status":            {fmt.Errorf("%s: %w", canary, apierrors.NewUnauthorized("expired")), "expired"},
		"joined with a status":       {errors.Join(errors.New(canary), apierrors.NewUnauthorized("expired")), "expired"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := redact.Error(test.err)
			if text := fmt.Sprintf("%v %+v %#v %s %q", got, got, got, got, got); strings.Contains(text, "canary") || !strings.Contains(text, test.want) {
				t.Errorf("text: got %s, want %q in it and no object data", text, test.want)
			}
			if got, want := failure.Of(got), failure.Of(test.err); got != want {
				t.Errorf("class: got %s, want %s", got, want)
			}
		})
	}
}

func TestErrorKeepsText(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"status":            {apierrors.NewForbidden(resource, "tls", errors.New("no")), `secrets "tls" is forbidden: no`},
		"status, wrapped":   {fmt.Errorf("x: %w", apierrors.NewForbidden(resource, "tls", errors.New("no"))), `secrets "tls" is forbidden: no`},
		"request":           {&url.Error{Op: "Get", URL: "https://server", Err: syscall.ECONNREFUSED}, `Get "https://server": connection refused`},
		"of two attempts":   {fmt.Errorf("%w - error from a previous attempt: %w", &url.Error{Op: "Get", Err: io.EOF}, io.EOF), `Get "": EOF`},
		"network":           {&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, "dial tcp: connection refused"},
		"EOF":               {io.EOF, "EOF"},
		"unexpected EOF":    {io.ErrUnexpectedEOF, "unexpected EOF"},
		"canceled":          {context.Canceled, "context canceled"},
		"deadline":          {context.DeadlineExceeded, "context deadline exceeded"},
		"loggable":          {redact.Loggable(errors.New("too long")), "too long"},
		"loggable, wrapped": {fmt.Errorf("x: %w", redact.Loggable(errors.New("too long"))), "x: too long"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := redact.Error(test.err)
			if got.Error() != test.want {
				t.Errorf("text: got %q, want %q", got, test.want)
			}
			if got, want := failure.Of(got), failure.Of(test.err); got != want {
				t.Errorf("class: got %s, want %s", got, want)
			}
		})
	}
}

// Whatever the text is, errors.Is, the reason of a status and its Retry-After stay.
func TestErrorKeepsWhatIsAsked(t *testing.T) {
	sentinel := errors.New("of the source")
	if err := redact.Error(fmt.Errorf("%s: %w", canary, sentinel)); !errors.Is(err, sentinel) || errors.Is(err, io.EOF) {
		t.Errorf("errors.Is: got %v for the sentinel, want true, and false for another", errors.Is(err, sentinel))
	}
	for name, err := range map[string]error{"event": undecoded(), "page": htmlPage()} {
		got := redact.Error(err)
		if apierrors.ReasonForError(got) != apierrors.ReasonForError(err) || redact.IsDecoding(got) != redact.IsDecoding(err) {
			t.Errorf("%s: got reason %q, decoding: %v; want %q, %v", name,
				apierrors.ReasonForError(got), redact.IsDecoding(got), apierrors.ReasonForError(err), redact.IsDecoding(err))
		}
		gotSeconds, _ := apierrors.SuggestsClientDelay(got)
		if want, _ := apierrors.SuggestsClientDelay(err); gotSeconds != want {
			t.Errorf("%s: got a Retry-After of %d s, want %d s", name, gotSeconds, want)
		}
	}
	once := redact.Error(errQuoting)
	if twice := redact.Error(fmt.Errorf("%s: %w", canary, once)); twice.Error() != once.Error() {
		t.Errorf("twice: got %q, want %q", twice, once)
	}
	if redact.Error(nil) != nil || redact.Loggable(nil) != nil {
		t.Error("nil: got an error, want nil")
	}
	if err := redact.Loggable(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("Loggable: got %v, want it to wrap its error", err)
	}
}

func panics(value any) (err error) {
	defer redact.Panic(&err)
	panic(value)
}

func increments(counts map[string]int) (err error) {
	defer redact.Panic(&err)
	counts[canary]++
	return nil
}

func TestPanic(t *testing.T) {
	for want, value := range map[string]any{"a string": canary, "a *errors.errorString": errors.New(canary), "a []uint8": []byte(canary)} {
		err := panics(value)
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		if !errors.Is(err, redact.ErrPanic) || !strings.Contains(text, want) || !strings.Contains(text, "redact_test.panics") {
			t.Errorf("got %s, want ErrPanic with %q, and the function that panicked", text, want)
		}
		if strings.Contains(text, "canary") || strings.Contains(text, "99, 97, 110") || strings.Contains(text, "0x63, 0x61") {
			t.Errorf("got object data in: %s", text)
		}
	}
	// A panic of the runtime happens in the function that made it.
	err := increments(nil)
	if !errors.Is(err, redact.ErrPanic) || !strings.Contains(err.Error(), "redact_test.increments") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want ErrPanic and the function, and no value", err)
	}
	err = errors.New("before")
	func() { defer redact.Panic(&err) }()
	if err == nil || err.Error() != "before" {
		t.Errorf("without a panic: got %v, want the error left alone", err)
	}
}

// logTo returns a logger at a verbosity that appends its lines.
func logTo(lines *[]string, verbosity int) logr.Logger {
	return funcr.New(func(prefix, args string) { *lines = append(*lines, prefix+" "+args) }, funcr.Options{Verbosity: verbosity})
}

// client-go prints bodies from verbosity 8 up. The logger of the context drops those
// lines, also with values and a name.
func TestContextCapsTheVerbosity(t *testing.T) {
	var lines []string
	ctx := redact.Context(klog.NewContext(t.Context(), logTo(&lines, 10)))
	loggers := map[string]klog.Logger{
		"plain": klog.FromContext(ctx), "values": klog.FromContext(ctx).WithValues("key", "value"), "name": klog.FromContext(ctx).WithName("name"),
	}
	for name, logger := range loggers {
		lines = nil
		for level := range 11 {
			if got, want := logger.V(level).Enabled(), level < 8; got != want {
				t.Errorf("%s: enabled at level %d: got %v, want %v", name, level, got, want)
			}
			logger.V(level).Info("line")
		}
		logger.Error(errors.New("no"), "error")
		if got := len(lines); got != 9 {
			t.Errorf("%s: got %d lines, want those of levels 0 to 7, and the error:\n%s", name, got, strings.Join(lines, "\n"))
		}
	}
}

// client-go logs errors that quote an object from verbosity 5 up.
func TestContextHidesQuotingErrors(t *testing.T) {
	var lines []string
	logger := klog.FromContext(redact.Context(klog.NewContext(t.Context(), logTo(&lines, 10))))
	for level := 5; level < 11; level++ {
		logger.V(level).Info("cannot decode", "err", errQuoting, "other", "kept")
	}
	text := strings.Join(lines, "\n")
	if len(lines) != 3 || strings.Contains(text, "canary") || strings.Count(text, "kept") != 3 {
		t.Errorf("log: got %s\nwant the lines of levels 5 to 7, without the text of the error", text)
	}
}

// A capped logger still reports the file and line of its caller.
func TestContextKeepsTheCaller(t *testing.T) {
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{LogCaller: funcr.All})
	logger := klog.FromContext(redact.Context(klog.NewContext(t.Context(), sink)))
	logger.Info("line")
	logger.WithName("name").Info("line")
	logger.Error(errQuoting, "line")
	for _, line := range lines {
		if !strings.Contains(line, "redact_test.go") {
			t.Errorf("caller: got %s, want this file", line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("lines: got %d, want 3", len(lines))
	}
}

func TestContextWithoutASink(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	if redact.Context(ctx) != ctx {
		t.Error("got another context, want the same")
	}
}
