// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

const loginPage = "<!DOCTYPE html><html><title>Log in</title>canary</html>"

// foreignAnswers are answers of a front end, with 200, and what says what has come: to a client of ConfigFor, and to
// another client, which shows no header. Without the latter both are the same.
var foreignAnswers = map[string]struct {
	contentType, encoding, body string
	want, plain                 string
}{
	"a login page":            {"text/html; charset=utf-8", "", loginPage, "text/html", ""},
	"a page that begins late": {"text/html", "", "\n\n  " + loginPage, "text/html", "text/"},
	"a page as JSON":          {"application/json", "", loginPage, "text/html", ""},
	"a page without a type":   {"", "", loginPage, "text/html", ""},
	"a text":                  {"text/plain", "", "canary: please log in", "text/plain", ""},
	"a short text":            {"text/plain", "", "no", "text/plain", ": "},
	"another type":            {"application/vnd.example.canteen+xml", "", "<a/>", "application/vnd.example.canteen+xml", "text/"},
	"a long type":             {"text/" + strings.Repeat("x", 10000), "", "x: y z", "text/xxx", "text/plain"},
	"nothing of HTML":         {"text/html", "", "", "text/html", ": "},
	"compressed JSON":         {"application/json", "gzip", compressed(`{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":{}}`), "", ""},
}

func compressed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// An answer that is not an API server's says what has come, in a list, a GET and a watch, with each client.
func TestForeignAnswer(t *testing.T) {
	for name, test := range foreignAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testForeignAnswer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				for key, value := range map[string]string{"Content-Type": test.contentType, "Content-Encoding": test.encoding} {
					if value != "" {
						w.Header().Set(key, value)
					}
				}
				_, _ = w.Write([]byte(test.body))
			}, test.want, test.plain)
		})
	}
}

func testForeignAnswer(t *testing.T, answer http.HandlerFunc, want, plain string) {
	server := newTLSServer(t, nil, answer)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: caOf(server)}}
	inJSON, http1 := rest.CopyConfig(config), rest.CopyConfig(config)
	inJSON.ContentType, inJSON.AcceptContentTypes = "application/json", "application/json"
	http1.NextProtos = []string{"http/1.1"}
	sources := map[string]resource.Resource[*corev1.Secret]{
		"JSON": secretsOf(t, inJSON)["REST"], "HTTP/1.1": secretsOf(t, http1)["REST"], "without our transport": plainSecrets(t, config),
	}
	for name, secrets := range secretsOf(t, config) {
		sources[name] = secrets
	}
	for strategy, options := range map[string]objectcache.StoreOptions{
		"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{},
	} {
		for client, secrets := range sources {
			want := want
			if client == "without our transport" && plain != "" {
				want = plain
			}
			got := failedGet(t, secrets, options).Error()
			if client == "typed" && strings.Contains(got, "hidden because it may quote an object") {
				continue // client-go takes it for JSON
			}
			if !strings.Contains(got, want) || strings.Contains(got, "canary") || strings.Contains(got, "malformed: malformed") || len(got) > 1000 ||
				strings.Contains(got, "a frame of") || strings.Contains(got, "hidden") || strings.Contains(got, "no reflector reaches") {
				t.Errorf("%s, %s: got %.2000s\nwant %q in it", strategy, client, got, want)
			}
		}
	}
}

// plainSecrets are those of a client that client-go has made alone.
func plainSecrets(t *testing.T, config *rest.Config) resource.Resource[*corev1.Secret] {
	return resource.Secrets(newClient(t, config))
}
