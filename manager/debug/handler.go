// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"sync"
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
	// Title is the heading of the page. Default: the name of the program.
	Title string
	// Sources are managers and stores by a name for the reader, such as "secrets". Of a
	// manager the page shows the owners by name, of a store by UID.
	Sources map[string]Source
	// Gates are the Gates that the stores were given, by a name for the reader, such as
	// the name of the cluster.
	Gates map[string]*objectcache.Gate
	// Connections counts the connections of the clients. Default: none are shown.
	Connections *Connections
	// AllowedHosts are the names and addresses, without a port, that requests may have in their Host header, beside
	// localhost and loopback addresses. Default: on a loopback address none, which protects from DNS rebinding; on
	// another address all.
	AllowedHosts []string
}

// Handler serves the page and the JSON: see the package's documentation. Its methods are
// safe for concurrent use. Make one with [NewHandler].
type Handler struct {
	options Options
	program Program
	answers *answers
}

// NewHandler returns a handler, or an error if a source or a Gate is nil, or an allowed host
// is no name. The handler keeps the maps and slices of options: do not change them any more.
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
	for _, host := range options.AllowedHosts {
		errs = append(errs, checkAllowedHost(host))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Handler{options: options, program: newProgram(options.Title), answers: newAnswers()}, nil
}

// ServeHTTP serves the page, JSON or Roles. It answers 403 to a host that is not allowed, 405 to
// methods other than GET and HEAD, 400 to a query with unknown names or values, and 503 if there
// are too many requests at a time.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept, Accept-Encoding")
	header.Set("X-Content-Type-Options", "nosniff")
	if err := h.options.checkHost(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		return
	}
	q, err := h.options.parseQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.serve(w, r, q)
}

// contentTypes are those of the formats. Browsers show YAML as a plain text.
var contentTypes = map[string]string{
	"html": "text/html; charset=utf-8", "json": "application/json", "roles": "text/plain; charset=utf-8",
}

// serve sends the answer for a query.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, q query) {
	answer, isFirst := h.answers.join(q)
	if answer == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at a time: ask again in a second", http.StatusServiceUnavailable)
		return
	}
	leave := sync.OnceFunc(func() { h.answers.leave(q, answer) })
	defer leave()
	if isFirst { // it makes the answer, also for others once its own client has gone
		defer context.AfterFunc(r.Context(), leave)()
		h.answers.make(q, answer, func(to *bufio.Writer) error { return h.write(to, q) })
	}
	select {
	case <-answer.made:
	case <-r.Context().Done():
		return
	}
	if answer.err != nil {
		http.Error(w, "the page cannot be made: "+answer.err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentTypes[q.Format])
	answer.send(w, r)
}

// write writes the answer for a query. An error of a write is that of to.Flush.
func (h *Handler) write(to *bufio.Writer, q query) error {
	report, objects := h.options.collect(time.Now())
	report.Program = h.program
	switch q.Format {
	case "roles":
		text, err := h.options.rolesYAML(q.apply(objects))
		_, _ = to.WriteString(text)
		return err
	case "json":
		return report.encode(to, q.apply(objects))
	}
	return newPage(h.options, q, report, objects).render(to)
}
