// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseRequest(t *testing.T) {
	for name, test := range map[string]struct {
		method, target string
		want           Request
	}{
		"get":                          {http.MethodGet, "/api/v1/namespaces/ns/secrets/a", Request{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "a"}},
		"list":                         {http.MethodGet, "/api/v1/namespaces/ns/secrets", Request{Verb: "list", Resource: "secrets", Namespace: "ns"}},
		"list with a trailing slash":   {http.MethodGet, "/api/v1/namespaces/ns/secrets/", Request{Verb: "list", Resource: "secrets", Namespace: "ns"}},
		"list of all namespaces":       {http.MethodGet, "/api/v1/secrets", Request{Verb: "list", Resource: "secrets"}},
		"named list":                   {http.MethodGet, "/api/v1/namespaces/ns/secrets?fieldSelector=metadata.name%3Da", Request{Verb: "list", Resource: "secrets", Namespace: "ns", Name: "a"}},
		"name and type":                {http.MethodGet, "/api/v1/namespaces/ns/secrets?fieldSelector=type%3DOpaque,metadata.name%3Da", Request{Verb: "list", Resource: "secrets", Namespace: "ns", Name: "a"}},
		"all names but one":            {http.MethodGet, "/api/v1/namespaces/ns/secrets?fieldSelector=metadata.name!%3Da", Request{Verb: "list", Resource: "secrets", Namespace: "ns"}},
		"watch":                        {http.MethodGet, "/api/v1/namespaces/ns/secrets?watch=true&fieldSelector=metadata.name%3Da", Request{Verb: "watch", Resource: "secrets", Namespace: "ns", Name: "a"}},
		"watch=1":                      {http.MethodGet, "/api/v1/secrets?watch=1", Request{Verb: "watch", Resource: "secrets"}},
		"bare watch":                   {http.MethodGet, "/api/v1/secrets?watch", Request{Verb: "watch", Resource: "secrets"}},
		"watch=false":                  {http.MethodGet, "/api/v1/secrets?watch=false", Request{Verb: "list", Resource: "secrets"}},
		"deprecated watch of one":      {http.MethodGet, "/api/v1/watch/namespaces/ns/secrets/a", Request{Verb: "watch", Resource: "secrets", Namespace: "ns", Name: "a"}},
		"get with watch=true":          {http.MethodGet, "/api/v1/namespaces/ns/secrets/a?watch=true", Request{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "a"}},
		"namespace":                    {http.MethodGet, "/api/v1/namespaces/ns", Request{Verb: "get", Resource: "namespaces", Namespace: "ns", Name: "ns"}},
		"namespace status":             {http.MethodPut, "/api/v1/namespaces/ns/status", Request{Verb: "update", Resource: "namespaces", Subresource: "status", Namespace: "ns", Name: "ns"}},
		"node":                         {http.MethodPatch, "/api/v1/nodes/n", Request{Verb: "patch", Resource: "nodes", Name: "n"}},
		"binding":                      {http.MethodPost, "/api/v1/namespaces/ns/pods/p/binding", Request{Verb: "create", Resource: "pods", Subresource: "binding", Namespace: "ns", Name: "p"}},
		"delete":                       {http.MethodDelete, "/api/v1/namespaces/ns/pods/p", Request{Verb: "delete", Resource: "pods", Namespace: "ns", Name: "p"}},
		"deletecollection":             {http.MethodDelete, "/api/v1/namespaces/ns/pods", Request{Verb: "deletecollection", Resource: "pods", Namespace: "ns"}},
		"named group":                  {http.MethodGet, "/apis/example.com/v1/namespaces/ns/widgets/a", Request{Verb: "get", Group: "example.com", Version: "v1", Resource: "widgets", Namespace: "ns", Name: "a"}},
		"named watch in a named group": {http.MethodGet, "/apis/example.com/v1/widgets?watch=1&fieldSelector=metadata.name%3Da", Request{Verb: "watch", Group: "example.com", Version: "v1", Resource: "widgets", Name: "a"}},
		"health":                       {http.MethodGet, "/readyz", Request{Verb: "get"}},
		"group":                        {http.MethodGet, "/apis/apps", Request{Verb: "get"}},
		"version":                      {http.MethodGet, "/apis/apps/v1", Request{Verb: "get"}},
		"discovery":                    {http.MethodGet, "/api/v1", Request{Verb: "get"}},
		"root of v1":                   {http.MethodGet, "/api/v1/", Request{Verb: "get"}},
		"bare watch path":              {http.MethodGet, "/api/v1/watch", Request{Verb: "list", Resource: "watch"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, test.target, nil)
			got := parseRequest(r)
			if test.want.Resource != "" && test.want.Version == "" {
				test.want.Version = "v1" // of core, in most cases
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Request{}, "Path", "Query")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.Path != r.URL.Path || !cmp.Equal(got.Query, r.URL.Query()) {
				t.Errorf("got path %q and query %v, want those of %s", got.Path, got.Query, test.target)
			}
		})
	}
}

// FuzzRequest checks that no path leads to a panic or a 5xx response.
func FuzzRequest(f *testing.F) {
	for _, target := range []string{"/api/v1/namespaces/a/secrets/b/c/d", "/api/v1//", "/api/v1/watch/", "/api/v1/namespaces//secrets"} {
		f.Add(target)
	}
	s, err := Start(Options{InMemory: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, path string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		r.Header.Set("Authorization", "Bearer "+s.options.Token)
		w := httptest.NewRecorder()
		if request := parseRequest(r); request.Verb == "watch" {
			return // serveHTTP would not return
		}
		s.serveHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("got %d for %q", w.Code, path)
		}
	})
}
