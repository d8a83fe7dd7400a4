// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	cliflag "k8s.io/component-base/cli/flag"
)

// Options configures the handler.
type Options struct {
	// Name is the name of the program, for /statusz and /flagz. Required.
	Name string
	// Ready returns why the program is not ready, or nil. Required.
	Ready func() error
	// Hint returns what may be wrong although the program is ready, or "". /readyz shows it. Default: nothing.
	Hint func() string
	// Flags returns the flags with the values in use. They must not be changed any more. Required.
	Flags func() cliflag.NamedFlagSets
	// Pages are further handlers by path, such as "/metrics". Default: none.
	Pages map[string]http.Handler
}

// NewHandler returns the handler of all paths. It answers 405 to methods other than GET and HEAD.
func NewHandler(options Options) http.Handler {
	began, paths := time.Now(), []string(nil)
	pages := map[string]http.Handler{
		// A process that answers is alive: Run of the agent ends only with the process.
		"/healthz": text(func() (int, string) { return http.StatusOK, "ok" }),
		"/readyz": text(func() (int, string) {
			if err := options.Ready(); err != nil {
				return http.StatusServiceUnavailable, "not ready: " + err.Error() + "\n"
			}
			if options.Hint != nil && options.Hint() != "" {
				return http.StatusOK, "ok; " + options.Hint() + "\n"
			}
			return http.StatusOK, "ok"
		}),
		"/flagz":   text(func() (int, string) { return http.StatusOK, flagz(options.Name, options.Flags()) }),
		"/statusz": text(func() (int, string) { return http.StatusOK, statusz(options.Name, began, paths) }),
	}
	maps.Copy(pages, options.Pages)
	paths = slices.Sorted(maps.Keys(pages))
	mux := http.NewServeMux()
	for path, page := range pages {
		mux.Handle("GET "+path, page)
	}
	mux.Handle("GET /{$}", reply("text/html", func() (int, string) { return http.StatusOK, index(options.Name, paths) }))
	return mux
}

// index returns the page that links to all others.
func index(name string, paths []string) string {
	var b strings.Builder
	name = html.EscapeString(name)
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><title>%s</title>\n<h1>%s</h1>\n<ul>\n", name, name)
	for _, path := range paths {
		path = html.EscapeString(path)
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>\n", path, path)
	}
	b.WriteString("</ul>\n</html>\n")
	return b.String()
}

// text returns a handler of plain text.
func text(respond func() (int, string)) http.Handler { return reply("text/plain", respond) }

// reply returns a handler of a page that no cache keeps.
func reply(kind string, respond func() (int, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		code, body := respond()
		w.Header().Set("Content-Type", kind+"; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	})
}
