// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/refwatch/refwatch/internal/redact"
)

// visibleErrors make a server, or this client, end the stream 1. The values are parts of the text that a user sees.
var visibleErrors = map[string]struct {
	do   func(e *exchange)
	want string
}{
	"the network": {func(e *exchange) { e.cut() }, "HTTP/2 connection ended: unexpected EOF"},
	"after GOAWAY": {func(e *exchange) {
		e.together(func() { e.goAway(1, http2.ErrCodeNo) })
		e.cut()
	}, "HTTP/2 connection ended: http2: server sent GOAWAY"},
	"no answer to a PING": {func(*exchange) { time.Sleep(time.Minute) }, "HTTP/2 connection ended: the server did not answer a PING within 15s"},
	"broken protocol":     {func(e *exchange) { e.data(2, "x") }, "HTTP/2 connection ended: the server broke the HTTP/2 protocol: DATA on a stream that was not opened (PROTOCOL_ERROR)"},
	"broken SETTINGS": {func(e *exchange) {
		e.settings(http2.Setting{ID: http2.SettingEnablePush, Val: 1})
	}, "SETTINGS_ENABLE_PUSH is for clients"},
	"closed":  {func(e *exchange) { e.client.close() }, "HTTP/2 connection ended: this client closed the connection"},
	"reset":   {func(e *exchange) { e.reset(1, http2.ErrCodeInternal) }, "stream error: INTERNAL_ERROR"},
	"refused": {func(e *exchange) { e.reset(1, http2.ErrCodeRefusedStream) }, "the server has not processed the request: stream error: REFUSED_STREAM"},
	"not processed": {func(e *exchange) {
		e.goAway(0, http2.ErrCodeEnhanceYourCalm)
	}, "the server has not processed the request: http2: server sent GOAWAY and closed the connection; ErrCode=ENHANCE_YOUR_CALM"},
	"DATA before the header": {func(e *exchange) { e.data(1, "x") }, "DATA before the header"},
	"no status":              {func(e *exchange) { e.header(1, "a", "b") }, "missing or invalid :status"},
	"invalid field": {func(e *exchange) {
		e.header(1, ":status", "200", "Other", "x")
	}, "stream error: PROTOCOL_ERROR; invalid header field name \"Other\""},
	"why it goes away": {func(e *exchange) {
		e.send(func() error { return e.framer.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings")) })
	}, `ErrCode=ENHANCE_YOUR_CALM, debug="too_many_pings"`},
}

// checkVisible checks what a user sees of an error of a request.
func checkVisible(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, of := range []error{err, &url.Error{Op: "Get", URL: "https://server/x", Err: err}} { // of a body, or a request
		shown := redact.Error(of).Error()
		if !strings.Contains(shown, want) || strings.Contains(shown, "hidden") || strings.Contains(shown, "Canary") {
			t.Errorf("got %s, want %q in it", shown, want)
		}
	}
}

// Users see the errors of this package, without what the server has sent.
func TestErrorsAreVisible(t *testing.T) {
	for name, test := range visibleErrors {
		t.Run(name, func(t *testing.T) {
			withConn(t, func(t *testing.T, e *exchange) {
				c := e.get("/v")
				e.wait()
				test.do(e)
				<-c.done
				checkVisible(t, c.failure(), test.want)
			})
		})
	}
	withConn(t, func(t *testing.T, e *exchange) {
		v := e.open("/v")
		_, err := v.resp.Body.Read(make([]byte, 1))
		checkVisible(t, err, "read of a body")
	})
	for want, change := range map[string]func(*http.Request){
		"invalid header name":     func(r *http.Request) { r.Header["a b"] = []string{"c"} },
		"invalid value of header": func(r *http.Request) { r.Header["A"] = []string{"Canary\n"} },
		"host is invalid":         func(r *http.Request) { r.Host = "a b" },
		"has no path":             func(r *http.Request) { r.URL.Opaque = "x" },
		"only GET requests":       func(r *http.Request) { r.Method = http.MethodPut },
	} {
		r := newRequest(t)
		change(r)
		_, err := requestFields(r)
		checkVisible(t, err, want)
	}
	checkVisible(t, errUnused, "the server closed the connection before it took a request")
}

// Each error of this package is made by redact, so that its text is not hidden.
func TestErrorsAreMadeByRedact(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files and %v", len(files), err)
	}
	set := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, file, nil, 0)
		check(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			called, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := called.X.(*ast.Ident); ok && (of.Name+"."+called.Sel.Name == "errors.New" || of.Name+"."+called.Sel.Name == "fmt.Errorf") {
				t.Errorf("%v: the text of this error is hidden from users: use redact.New or redact.Errorf", set.Position(n.Pos()))
			}
			return true
		})
	}
}
