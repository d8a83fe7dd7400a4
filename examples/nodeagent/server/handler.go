// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	cliflag "k8s.io/component-base/cli/flag"
)

// Options configures the handler.
type Options struct {
	// Name is the name of the program, for /statusz and /flagz. Required.
	Name string
	// Ready returns why the program is not ready, or nil. Required.
	Ready func() error
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
	return mux
}

// text returns a handler of plain text.
func text(respond func() (int, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		code, body := respond()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	})
}
