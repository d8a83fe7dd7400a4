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

// call is one request on its way through the server.
type call struct {
	*Server
	w       http.ResponseWriter
	r       *http.Request
	request Request
	table   *table // nil for what is not a resource
}

// statusWriter tells the recorder the code of the answer.
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

// serveHTTP is the chain every request goes through: record, fault, authentication, endpoint.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		return
	}
	defer s.running.Done()
	request := parseRequest(r)
	record := s.records.add(request)
	c := &call{
		Server:  s,
		w:       &statusWriter{w, func(code int) { s.records.setCode(record, code) }},
		r:       r,
		request: request,
		table:   s.store.tables[request.Resource],
	}
	c.w.Header().Set("Cache-Control", "no-cache, private")
	if intercept := s.faults.interceptor(); intercept != nil {
		if status := intercept(r.Context(), request); status != nil {
			c.fail(&apierrors.StatusError{ErrStatus: *status})
			return
		}
	}
	if !c.authenticated() {
		c.fail(apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	c.route()
}

// authenticated compares in constant time, as one does with secrets.
func (c *call) authenticated() bool {
	token, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(c.options.Token)) == 1
}

func (c *call) route() {
	switch {
	case c.request.Resource == "":
		c.serveNonResource()
	case c.table == nil, !c.pathExists():
		// kube-apiserver has no Status for paths it does not know.
		http.NotFound(c.w, c.r)
	default:
		if err := c.serveResource(); err != nil {
			c.fail(err)
		}
	}
}

// pathExists checks what the shape of the path promises against the resource.
func (c *call) pathExists() bool {
	resource := c.table.resource
	if c.request.Subresource != "" && !resource.hasSubresource(c.request.Subresource) {
		return false
	}
	if resource.namespaced {
		// Without a namespace there are collections only.
		return c.request.Namespace != "" || slices.Contains([]string{"list", "watch", "create", "deletecollection"}, c.request.Verb)
	}
	return resource == namespaces || c.request.Namespace == ""
}

// serveResource answers, or returns the error to answer with: an APIStatus, or anything else for a 500.
func (c *call) serveResource() error {
	acrossNamespaces := c.table.resource.namespaced && c.request.Namespace == ""
	switch verb := c.request.Verb; {
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
