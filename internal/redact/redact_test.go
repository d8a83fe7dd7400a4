// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/redact"
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

// request is the error of a request.
func request(err error) error {
	return &url.Error{Op: "Get", URL: "https://server/api/v1/namespaces/default/secrets?watch=true", Err: err}
}

// timeout is an error of the network with any text, as net/http makes one of that of a
// body.
type timeout struct{ text string }

func (t timeout) Error() string { return t.text }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestErrorHidesText(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string // in the text
	}{
		"decoder":                      {errQuoting, "*errors.errorString"},
		"wrapped":                      {fmt.Errorf("x: %w", errQuoting), "*errors.errorString"},
		"wrapped with an EOF":          {fmt.Errorf("%w: %w", errQuoting, io.ErrUnexpectedEOF), "unexpected EOF"},
		"behind a lost connection":     {errors.Join(errors.New("http2: client connection lost"), errors.New(canary)), "http2: client connection lost"},
		"behind the text of its cause": {fmt.Errorf("%w, after %s", errors.New("http2: no"), canary), "http2: no"},
		"joined with a cancellation":   {errors.Join(errQuoting, context.Canceled), "context canceled"},
		"around a connection error":    {fmt.Errorf("%w: %w", errQuoting, syscall.ECONNRESET), "connection reset"},
		"around a request":             {fmt.Errorf("%s: %w", canary, &url.Error{Op: "Get", URL: "https://server", Err: io.EOF}), "https://server"},
		"around a loggable one":        {fmt.Errorf("%s: %w", canary, redact.Loggable(errors.New("too long"))), "too long"},
		"a header of HTTP/1.1":         {request(textproto.ProtocolError("malformed MIME header line: " + canary)), `Get "https://server": malformed MIME header line`},
		"a trailer of HTTP/1.1":        {fmt.Errorf("unexpected error: %w", textproto.ProtocolError("malformed MIME header line: "+canary)), "textproto.ProtocolError"},
		"an answer of HTTP/1.1":        {request(fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", fmt.Errorf("malformed HTTP response %q", canary))), `transport connection broken: malformed HTTP response`},
		"a Location":                   {request(fmt.Errorf("failed to parse Location header %q: %w", canary, &url.Error{Op: "parse", URL: canary, Err: url.EscapeError(canary)})), `Get "https://server": failed to parse Location header "…": parse "…": invalid URL escape "…"`},
		"redirects":                    {&url.Error{Op: "Get", URL: "/" + canary, Err: errors.New("stopped after 10 redirects")}, `Get "": stopped after 10 redirects`},
		"a redirected request":         {&url.Error{Op: "Get", URL: "https://server/" + canary, Err: io.EOF}, `Get "https://server": EOF`},
		"a URL that is none":           {&url.Error{Op: "Get", URL: "://" + canary, Err: io.EOF}, `Get "": EOF`},
		"a time-out while reading":     {timeout{canary}, "redact_test.timeout"},
		"the password of a proxy":      {request(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: errors.New("no proxy at http://user:" + canary + "@proxy:3128")}), "no proxy at http://proxy:3128"},
		"an address of a proxy":        {request(fmt.Errorf("invalid proxy address %q: %w", "http://user:"+canary, &url.Error{Op: "parse", URL: "http://user:" + canary, Err: fmt.Errorf("invalid port %q after host", ":"+canary)})), `invalid proxy address "…": parse "…": invalid port "…" after host`},
		"a URL that is wrong":          {&url.Error{Op: "parse", URL: "https://server/" + canary, Err: errors.New(canary)}, "*errors.errorString"},
		"an event not decoded":         {undecoded(), "500 Internal Server Error"},
		"an HTML page":                 {htmlPage(), "502 Bad Gateway"},
		"an HTML page, wrapped":        {fmt.Errorf("%s: %w", canary, htmlPage()), "502 Bad Gateway"},
		"around a status":              {fmt.Errorf("%s: %w", canary, apierrors.NewUnauthorized("expired")), "expired"},
		"joined with a status":         {errors.Join(errors.New(canary), apierrors.NewUnauthorized("expired")), "expired"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := redact.Error(test.err)
			if text := fmt.Sprintf("%v %+v %#v %s %q", got, got, got, got, got); strings.Contains(text, "canary") || !strings.Contains(text, test.want) {
				t.Errorf("text: got %s, want %q in it and no object data", text, test.want)
			}
		})
	}
}

// dialing is an error of the network.
func dialing(err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}, Err: err}
}

func TestErrorKeepsText(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"status":             {apierrors.NewForbidden(resource, "tls", errors.New("no")), `secrets "tls" is forbidden: no`},
		"status, wrapped":    {fmt.Errorf("x: %w", apierrors.NewForbidden(resource, "tls", errors.New("no"))), `secrets "tls" is forbidden: no`},
		"status, escaped":    {apierrors.NewUnauthorized("a\tb\x1b[2J"), `a\tb\x1b[2J`},
		"name, escaped":      {request(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a\x1b"}}, Host: "b"}), `Get "https://server": x509: certificate is valid for a\x1b, not b`},
		"refused":            {request(dialing(os.NewSyscallError("connect", syscall.ECONNREFUSED))), `Get "https://server": dial tcp 10.0.0.1:443: connect: connection refused`},
		"no such host":       {request(dialing(&net.DNSError{Err: "no such host", Name: "server", IsNotFound: true})), `Get "https://server": dial tcp 10.0.0.1:443: lookup server: no such host`},
		"timed out":          {request(dialing(os.ErrDeadlineExceeded)), `Get "https://server": dial tcp 10.0.0.1:443: i/o timeout`},
		"closed":             {request(dialing(net.ErrClosed)), `Get "https://server": dial tcp 10.0.0.1:443: use of closed network connection`},
		"not HTTPS":          {request(http.ErrSchemeMismatch), `Get "https://server": http: server gave HTTP response to HTTPS client`},
		"certificate":        {request(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), `Get "https://server": tls: failed to verify certificate: x509: certificate signed by unknown authority`},
		"alert":              {request(&net.OpError{Op: "remote error", Err: tls.AlertError(40)}), `Get "https://server": remote error: tls: handshake failure`},
		"no TLS":             {request(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), `Get "https://server": tls: first record does not look like a TLS handshake`},
		"canceled request":   {request(errors.New("net/http: request canceled (Client.Timeout exceeded while awaiting headers)")), `Get "https://server": net/http: request canceled (Client.Timeout exceeded while awaiting headers)`},
		"lost":               {request(errors.New("http2: client connection lost")), `Get "https://server": http2: client connection lost`},
		"reset":              {http2.StreamError{StreamID: 3, Code: http2.ErrCodeInternal}, "stream error: INTERNAL_ERROR"},
		"credentials":        {request(errors.New(`getting credentials: exec: executable "x" failed with exit code 1`)), `Get "https://server": getting credentials: exec: executable "x" failed with exit code 1`},
		"token":              {request(errors.New(`failed to read token file "/x": open /x: no such file or directory`)), `Get "https://server": failed to read token file "/x": open /x: no such file or directory`},
		"rate limiter":       {fmt.Errorf("client rate limiter Wait returned an error: %w", errors.New("would exceed context deadline")), "client rate limiter Wait returned an error: would exceed context deadline"},
		"a proxy":            {request(errors.New("Proxy Authentication Required")), `Get "https://server": Proxy Authentication Required`},
		"a proxy, escaped":   {request(errors.New("No\x1b[2J")), `Get "https://server": No\x1b[2J`},
		"a proxy's bytes":    {request(errors.New(`malformed HTTP response "\x05\x00"`)), `Get "https://server": malformed HTTP response "\x05\x00"`},
		"TLS, not HTTP":      {request(fmt.Errorf("malformed HTTP response %q", "\x15\x03\x01\x00\x02\x02")), `Get "https://server": malformed HTTP response "\x15\x03\x01\x00\x02\x02"`},
		"a request's header": {request(errors.New(`net/http: invalid header field value for "Authorization"`)), `Get "https://server": net/http: invalid header field value for "Authorization"`},
		"redirects":          {request(errors.New("stopped after 10 redirects")), `Get "https://server": stopped after 10 redirects`},
		"a GOAWAY":           {http2.GoAwayError{ErrCode: http2.ErrCodeEnhanceYourCalm, DebugData: "too_many_pings"}, `http2: server sent GOAWAY and closed the connection; ErrCode=ENHANCE_YOUR_CALM, debug="too_many_pings"`},
		"our GOAWAY":         {redact.Errorf("HTTP/2 connection ended: %w", http2.GoAwayError{ErrCode: http2.ErrCodeNo, DebugData: "bye"}), `HTTP/2 connection ended: http2: server sent GOAWAY and closed the connection; ErrCode=NO_ERROR, debug="bye"`},
		"a header of HTTP/2": {http2.StreamError{StreamID: 3, Code: http2.ErrCodeProtocol, Cause: errors.New(`invalid header field name "A"`)}, `stream error: PROTOCOL_ERROR; invalid header field name "A"`},
		"of two attempts":    {fmt.Errorf("%w - error from a previous attempt: %w", &url.Error{Op: "Get", Err: io.EOF}, io.EOF), `Get "": EOF`},
		"network":            {&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, "dial tcp: connection refused"},
		"EOF":                {io.EOF, "EOF"},
		"unexpected EOF":     {io.ErrUnexpectedEOF, "unexpected EOF"},
		"canceled":           {context.Canceled, "context canceled"},
		"deadline":           {context.DeadlineExceeded, "context deadline exceeded"},
		"loggable":           {redact.Loggable(errors.New("too long")), "too long"},
		"loggable, wrapped":  {fmt.Errorf("x: %w", redact.Loggable(errors.New("too long"))), "too long"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := redact.Error(test.err)
			if got.Error() != test.want {
				t.Errorf("text: got %q, want %q", got, test.want)
			}
		})
	}
}

// A text of any length is shown in part.
func TestErrorBoundsText(t *testing.T) {
	for name, err := range map[string]error{
		"proxy":    request(errors.New(strings.Repeat("é\x00", 1<<16))),
		"loggable": redact.Loggable(errors.New(strings.Repeat("long ", 1<<16))),
		"GOAWAY":   http2.GoAwayError{DebugData: strings.Repeat("long ", 1<<16)},
	} {
		got := redact.Error(fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err))
		if text := redact.Error(err).Error(); len(text) > 5000 || len(text) < 3000 || !strings.Contains(text, "… (cut)") {
			t.Errorf("%s: got %d bytes, want some 4,000, and that it was cut: %.100s", name, len(text), text)
		}
		if !errors.Is(got, io.ErrUnexpectedEOF) {
			t.Errorf("%s: errors.Is: got false, want true", name)
		}
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
	for _, text := range []string{"<html>" + canary, "404 page not found", canary, "", "unknown"} {
		page := apierrors.NewGenericServerResponse(404, http.MethodGet, resource, "", text, 0, true)
		once := redact.Error(page)
		var first, second apierrors.APIStatus
		if !errors.As(once, &first) || !errors.As(redact.Error(once), &second) || !reflect.DeepEqual(first.Status(), second.Status()) {
			t.Errorf("%q twice: got %+v, want %+v", text, second, first)
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

// client-go logs errors that quote an object: as errors, and from verbosity 5 up.
func TestContextHidesQuotingErrors(t *testing.T) {
	var lines []string
	logger := klog.FromContext(redact.Context(klog.NewContext(t.Context(), logTo(&lines, 10))))
	for level := 5; level < 11; level++ {
		logger.V(level).Info("cannot decode", "err", errQuoting, "other", "kept")
	}
	logger.Error(errQuoting, "cannot decode", "err", errQuoting, "other", "kept")
	text := strings.Join(lines, "\n")
	if len(lines) != 4 || strings.Contains(text, "canary") || strings.Count(text, "kept") != 4 {
		t.Errorf("log: got %s\nwant the lines of levels 5 to 7, and the error, without the text of the error", text)
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
