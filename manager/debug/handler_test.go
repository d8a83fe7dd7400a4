// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

func TestFormat(t *testing.T) {
	tests := map[string]struct{ query, accept, want string }{
		"no Accept header":         {"", "", "text/html; charset=utf-8"},
		"a browser":                {"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8"},
		"curl":                     {"", "*/*", "text/html; charset=utf-8"},
		"JSON":                     {"", "application/json", "application/json"},
		"JSON before HTML":         {"", "text/html;q=0.5, application/json", "application/json"},
		"HTML before JSON":         {"", "application/json;q=0.9, text/html", "text/html; charset=utf-8"},
		"a malformed quality":      {"", "application/json;q=x", "text/html; charset=utf-8"},
		"a malformed header":       {"", "//,;;, application/json", "application/json"},
		"the query wins over HTML": {"?format=json", "text/html", "application/json"},
		"the query wins over JSON": {"?format=html", "application/json", "text/html; charset=utf-8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response := send(secrets(t, object("tls", objectcache.PhaseServing)), http.MethodGet, test.query, test.accept)
			if got := response.Header().Get("Content-Type"); response.Code != http.StatusOK || got != test.want {
				t.Errorf("got status %d and %s, want 200 and %s", response.Code, got, test.want)
			}
		})
	}
}

// Every response forbids caches, other types of content and foreign scripts.
func TestHeaders(t *testing.T) {
	handler := secrets(t)
	for name, query := range map[string]string{"page": "", "JSON": "?format=json", "bad request": "?sort=x"} {
		header := get(handler, query).Header()
		for field, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Vary": "Accept, Accept-Encoding",
		} {
			if got := header.Get(field); got != want {
				t.Errorf("%s: header %s: got %q, want %q", name, field, got, want)
			}
		}
		policy := header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "script-src 'sha256-"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: Content-Security-Policy: got %q, want it to have %q", name, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: Content-Security-Policy: got %q, want nothing unsafe", name, policy)
		}
	}
}

func TestMethods(t *testing.T) {
	handler := secrets(t, object("tls", objectcache.PhaseServing))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		response := send(handler, method, "", "")
		if response.Code != http.StatusMethodNotAllowed || response.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: got status %d and Allow %q, want 405 and GET, HEAD", method, response.Code, response.Header().Get("Allow"))
		}
	}
	head := send(handler, http.MethodHead, "", "")
	if head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: got status %d, %d bytes and length %q, want 200, none and a length",
			head.Code, head.Body.Len(), head.Header().Get("Content-Length"))
	}
}

// A query that the handler does not know is an error, with a text that names those it
// knows. The text is plain and quotes what was sent.
func TestBadQuery(t *testing.T) {
	handler := secrets(t)
	tests := map[string]struct{ query, want string }{
		"name":            {"?fliter=x", `unknown query "fliter": known are cause, filter, format, phase, resource, sort`},
		"phase":           {"?phase=watching", `unknown phase "watching": known are Problem, Failing,`},
		"sort":            {"?sort=size", `unknown sort "size": known are age, -age,`},
		"resource":        {"?resource=pods", `unknown resource "pods": known are secrets`},
		"format":          {"?format=xml", `unknown format "xml": known are html, json, roles`},
		"twice":           {"?sort=age&sort=name", `query "sort" is given 2 times: give it once`},
		"malformed":       {"?filter=%zz", "the query of the URL is malformed"},
		"a long filter":   {"?filter=" + strings.Repeat("t+", 251), `query "filter" has 502 bytes: give at most 500`},
		"hostile":         {"?sort=%3Cscript%3E%0A", `unknown sort "<script>\n": known are`},
		"also as JSON":    {"?format=json&sort=size", `unknown sort "size"`},
		"a phase of none": {"?phase=Unknown", `unknown phase "Unknown"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response := get(handler, test.query)
			if got := response.Body.String(); response.Code != http.StatusBadRequest || !strings.Contains(got, test.want) {
				t.Errorf("got status %d and %q, want 400 and %q", response.Code, got, test.want)
			}
			if got := response.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type: got %q, want text/plain", got)
			}
		})
	}
	for _, query := range []string{"?filter=&phase=&resource=&sort=&format=", "?filter=a+%26+%3Cb%3E"} {
		if response := get(handler, query); response.Code != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", query, response.Code)
		}
	}
}

func TestNewHandlerErrors(t *testing.T) {
	var store *objectcache.TTLStore[*corev1.Secret]
	tests := map[string]struct {
		options debug.Options
		want    string
	}{
		"nothing":       {debug.Options{}, ""},
		"a nil source":  {debug.Options{Sources: map[string]debug.Source{"secrets": nil}}, `the source "secrets" is nil`},
		"a nil pointer": {debug.Options{Sources: map[string]debug.Source{"secrets": store}}, `the source "secrets" is nil`},
		"a nil Gate":    {debug.Options{Gates: map[string]*objectcache.Gate{"cluster": nil}}, `the Gate "cluster" is nil`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			handler, err := debug.NewHandler(test.options)
			if test.want == "" && (err != nil || get(handler, "").Code != http.StatusOK) {
				t.Errorf("got %v, want a handler that answers", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// The page and its links work at any path.
func TestMountedAnywhere(t *testing.T) {
	handler := secrets(t, object("tls", objectcache.PhaseServing))
	mux := http.NewServeMux()
	mux.Handle("/debug/refwatch", handler)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", handler))
	mux.Handle("/deep/er/refwatch/", handler)
	for _, path := range []string{"/debug/refwatch", "/debug/refwatch?filter=nothing", "/stripped/", "/deep/er/refwatch/"} {
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
		if response.Code != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", path, response.Code)
		}
		for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(response.Body.String(), -1) {
			if !strings.HasPrefix(link[1], "?") && link[1] != "data:," {
				t.Errorf("%s: link %q: want a query only", path, link[1])
			}
		}
	}
}

// No request of the page stays open, so the page does not hold up the end of its server.
func TestShutdown(t *testing.T) {
	server := httptest.NewServer(secrets(t, object("tls", objectcache.PhaseServing)))
	defer server.Close()
	for _, query := range []string{"", "?format=json"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "identity") // else the client drops the length
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body) // returns when the response has ended
		if _ = response.Body.Close(); err != nil || int64(len(body)) != response.ContentLength {
			t.Errorf("%q: got %d bytes and %v, want %d", query, len(body), err, response.ContentLength)
		}
	}
	if err := server.Config.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: got %v, want nil", err)
	}
}

func TestFilterAndSort(t *testing.T) {
	old := object("old", objectcache.PhaseServing, "a", "b", "c")
	old.LastContact = old.LastContact.Add(-time.Minute)
	never := object("never", objectcache.PhaseSyncing)
	never.Synced, never.Exists, never.LastContact = false, false, time.Time{}
	absent := object("zz-absent", objectcache.PhaseAbsent, "d", "e")
	absent.Exists = false
	missed := object("missed", objectcache.PhaseNotUpdated, "f")
	missed.NotUpdatedSince, missed.LastContact = old.LastContact, old.LastContact
	failing := object("failing", objectcache.PhaseFailing, "Pod/default/web")
	handler := newHandler(t, debug.Options{Sources: map[string]debug.Source{
		"secrets":    source{old, failing, absent, missed},
		"configmaps": source{never},
	}})
	tests := map[string][]string{
		"":                                   {"failing", "never", "missed", "zz-absent", "old"},
		"?sort=-problem":                     {"old", "zz-absent", "missed", "never", "failing"},
		"?sort=name":                         {"failing", "missed", "never", "old", "zz-absent"},
		"?sort=-name":                        {"zz-absent", "old", "never", "missed", "failing"},
		"?sort=phase":                        {"failing", "never", "missed", "zz-absent", "old"},
		"?sort=owners":                       {"never", "failing", "missed", "zz-absent", "old"},
		"?phase=Serving":                     {"old"},
		"?phase=Absent":                      {"zz-absent"},
		"?phase=NotUpdated":                  {"missed"},
		"?phase=Problem":                     {"failing", "never", "missed", "zz-absent"},
		"?phase=Failing":                     {"failing"},
		"?resource=configmaps":               {"never"},
		"?filter=DEFAULT/old":                {"old"},
		"?filter=pod/default/web":            {"failing"},
		"?filter=cannot+read":                {"failing"},
		"?filter=uid-of-zz-absent":           {"zz-absent"},
		"?filter=default+configmaps":         {"never"},
		"?filter=default+pods":               {},
		"?filter=e&phase=Problem&sort=-name": {"zz-absent", "never", "missed", "failing"},
	}
	for query, want := range tests {
		if got := names(report(t, handler, query)); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}
