// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/refwatch/refwatch/objectcache"
)

// Source returns the status of objects. Managers and stores implement it. If it also has
// Notes() []string, the page shows its notes: what is noteworthy of the source as a whole.
type Source interface {
	Statuses() iter.Seq[objectcache.Status]
}

// Options names what the page shows. The zero value is valid, and shows nothing.
type Options struct {
	// Sources are managers and stores by a name for the reader, such as "secrets". Of a
	// manager the page shows the owners by name, of a store by UID.
	Sources map[string]Source
	// Gates are the Gates that the stores were given, by a name for the reader, such as
	// the name of the cluster.
	Gates map[string]*objectcache.Gate
	// Connections counts the connections of the clients. Default: none are shown.
	Connections *Connections
}

// Handler serves the page and the JSON: see the package's documentation. Its methods are
// safe for concurrent use. Make one with [NewHandler].
type Handler struct {
	options Options
}

// NewHandler returns a handler, or an error if a source or a Gate is nil. The handler
// keeps the maps of options: do not change them any more.
func NewHandler(options Options) (*Handler, error) {
	var errs []error
	for name, source := range options.Sources {
		if value := reflect.ValueOf(source); source == nil || value.Kind() == reflect.Pointer && value.IsNil() {
			errs = append(errs, fmt.Errorf("new debug handler: the source %q is nil: give a manager or a store", name))
		}
	}
	for name, gate := range options.Gates {
		if gate == nil {
			errs = append(errs, fmt.Errorf("new debug handler: the Gate %q is nil: give the Gate of the stores' options", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Handler{options: options}, nil
}

// ServeHTTP serves the page, or JSON. It answers 405 to methods other than GET and HEAD,
// and 400 to a query with unknown names or values.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		return
	}
	q, err := h.options.parseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	report, objects := h.options.collect(time.Now())
	var body bytes.Buffer
	switch {
	case q.Format == "roles":
		header.Set("Content-Type", "text/plain; charset=utf-8") // browsers show it
		var text string
		text, err = h.options.rolesYAML(q.apply(objects))
		body.WriteString(text)
	case q.Format == "json" || q.Format == "" && prefersJSON(r.Header.Get("Accept")):
		header.Set("Content-Type", "application/json")
		err = report.encode(&body, q.apply(objects))
	default:
		header.Set("Content-Type", "text/html; charset=utf-8")
		err = newPage(h.options, q, report, objects, r.Host).render(&body)
	}
	if err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	if r.Method == http.MethodGet {
		_, _ = body.WriteTo(w) // an error means that the client has gone
	}
}

// prefersJSON reports whether an Accept header prefers JSON to HTML.
func prefersJSON(accept string) bool {
	quality := map[string]float64{}
	for part := range strings.SplitSeq(accept, ",") {
		mediaType, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := parameters["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		quality[mediaType] = max(q, quality[mediaType])
	}
	return quality["application/json"] > max(quality["text/html"], quality["application/xhtml+xml"])
}
