// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// call is one request that is being served.
type call struct {
	*Server
	w       http.ResponseWriter
	r       *http.Request
	request Request
	table   *table // nil if the path names no served resource
}

// statusWriter records the status code of the response.
type statusWriter struct {
	http.ResponseWriter
	record func(code int)
}

func (w *statusWriter) WriteHeader(code int) {
	w.record(code)
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.record(http.StatusOK) // no effect if WriteHeader has been called
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serveHTTP records every request, and gives it to the middleware, or handles it.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		return
	}
	defer s.running.Done()
	request := s.parseRequest(r)
	record := s.records.add(request)
	recording := &statusWriter{w, func(code int) { s.records.setCode(record, code) }}
	wrap, intercept := s.faults.current()
	if wrap == nil {
		s.handle(recording, r, request, intercept)
		return
	}
	wrap(recording, r, request, func(w http.ResponseWriter, r *http.Request) {
		s.handle(w, r, s.parseRequest(r), intercept)
	})
}

// parseRequest returns a request to this server.
func (s *Server) parseRequest(r *http.Request) Request {
	request := parseRequest(r)
	request.Replica = s.number
	return request
}

// handle applies the interceptor, authenticates the client, authorizes the request, and calls the endpoint.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, request Request, intercept Interceptor) {
	c := &call{
		Server:  s,
		w:       w,
		r:       r,
		request: request,
		table:   s.store.tables[request.groupResource().WithVersion(request.Version)],
	}
	c.w.Header().Set("Cache-Control", "no-cache, private")
	if intercept != nil {
		if status := intercept(r.Context(), request); status != nil {
			c.respondError(&apierrors.StatusError{ErrStatus: *status})
			return
		}
	}
	if !c.authenticated() {
		c.respondError(apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	if !s.authorizer.allows(request) {
		c.respondError(forbidden(request))
		return
	}
	c.route()
}

// authenticated reports whether the request has the token. It compares in constant time.
func (c *call) authenticated() bool {
	token, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(c.options.Token)) == 1
}

func (c *call) route() {
	switch {
	case c.request.Resource == "":
		c.serveNonResource()
	case c.table != nil && c.table.resource.custom && c.request.Subresource != "" && !c.table.resource.hasSubresource(c.request.Subresource):
		c.respondError(apierrors.NewNotFound(c.groupResource(), c.request.Name))
	case c.table == nil, !c.pathExists():
		// As in kube-apiserver, an unknown path gets no Status.
		http.NotFound(c.w, c.r)
	default:
		if err := c.serveResource(); err != nil {
			c.respondError(err)
		}
	}
}

// pathExists reports whether the resource has such a path: with a namespace or without, with the subresource or none.
func (c *call) pathExists() bool {
	resource := c.table.resource
	if c.request.Subresource != "" && !resource.hasSubresource(c.request.Subresource) {
		return false
	}
	if resource.namespaced {
		// Only collections have a path without a namespace.
		return c.request.Namespace != "" || slices.Contains([]string{"list", "watch", "create", "deletecollection"}, c.request.Verb)
	}
	return resource == namespaces || c.request.Namespace == ""
}

// serveResource serves the request. If it returns an error, the caller responds with it: an APIStatus as it is, any
// other error as 500.
func (c *call) serveResource() error {
	acrossNamespaces := c.table.resource.namespaced && c.request.Namespace == ""
	switch verb := c.request.Verb; {
	case c.table.resource.answer != nil && verb == "create" && c.request.Name == "":
		return c.table.resource.answer(c)
	case c.table.resource.answer != nil:
		return c.notAllowed()
	case acrossNamespaces && verb != "list" && verb != "watch":
		return c.notAllowed()
	case c.request.Subresource == "binding" && verb == "create":
		return c.bind()
	case c.request.Subresource == "token" && verb == "create":
		return c.createToken()
	case c.request.Subresource == "binding", c.request.Subresource == "token":
		return c.notAllowed()
	case c.request.Subresource != "" && (verb == "delete" || verb == "create"):
		return c.notAllowed()
	case verb == "get":
		return c.get()
	case verb == "list":
		return c.list()
	case verb == "watch":
		return c.watch()
	case verb == "create" && c.request.Name == "":
		return c.create()
	case verb == "update" && c.request.Name != "":
		return c.update()
	case verb == "patch" && c.request.Name != "":
		return c.patch()
	case verb == "delete":
		return c.delete()
	case verb == "deletecollection":
		return c.deleteCollection()
	default:
		return c.notAllowed()
	}
}

func (c *call) notAllowed() error {
	return apierrors.NewMethodNotSupported(c.groupResource(), c.request.Verb)
}

func (c *call) groupResource() schema.GroupResource { return c.table.resource.groupResource() }
