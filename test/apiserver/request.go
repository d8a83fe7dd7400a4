// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// Request is one request as the server has understood it. Maps in it are shared: do not change them.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete, deletecollection; for what is not a resource
	// the method in lower case.
	Verb string
	// Resource, Subresource, Namespace and Name are from the path; the Name of a list or watch is that of its
	// metadata.name field selector. All are empty for what is not a resource.
	Resource, Subresource, Namespace, Name string

	Path  string
	Query url.Values
	// ContentType is that of the body, Accept what the client would like to read.
	ContentType, Accept, UserAgent string

	// Code is the HTTP status of the answer, zero until that is known.
	Code int
}

// Key is the object the request is about, or as much of it as is known.
func (r Request) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	http.MethodGet: "get", http.MethodHead: "get",
}

// parseRequest reads /api/v1/RESOURCE[/NAME[/SUB]] and /api/v1/namespaces/NAMESPACE/RESOURCE[/NAME[/SUB]],
// and the deprecated /api/v1/watch/ before them, as kube-apiserver's RequestInfo does.
func parseRequest(r *http.Request) Request {
	req := Request{
		Verb:        strings.ToLower(r.Method),
		Path:        r.URL.Path,
		Query:       r.URL.Query(),
		ContentType: r.Header.Get("Content-Type"),
		Accept:      r.Header.Get("Accept"),
		UserAgent:   r.UserAgent(),
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/")
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	if !ok || parts[0] == "" {
		return req
	}
	if verb, ok := verbs[r.Method]; ok {
		req.Verb = verb
	}
	forceWatch := parts[0] == "watch" && len(parts) > 1
	if forceWatch {
		parts = parts[1:]
	}
	parts = req.parseParts(parts)
	if len(parts) > 0 {
		req.Subresource = strings.Join(parts, "/")
	}
	req.refineVerb(forceWatch)
	return req
}

// parseParts takes namespace, resource and name off the path and returns the rest.
func (r *Request) parseParts(parts []string) []string {
	if parts[0] == "namespaces" && len(parts) > 1 {
		r.Namespace = parts[1]
		// A namespace is inside itself; its only subresources are these.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	r.Resource, parts = parts[0], parts[1:]
	if len(parts) > 0 {
		r.Name, parts = parts[0], parts[1:]
	}
	return parts
}

// refineVerb tells get, list and watch apart, and delete from deletecollection.
func (r *Request) refineVerb(forceWatch bool) {
	switch {
	case r.Verb == "get" && (forceWatch || r.Name == "" && isWatch(r.Query)):
		r.Verb = "watch"
	case r.Verb == "get" && r.Name == "":
		r.Verb = "list"
	case r.Verb == "delete" && r.Name == "":
		r.Verb = "deletecollection"
	}
	if r.Name != "" || r.Verb != "list" && r.Verb != "watch" {
		return
	}
	if selector, err := fields.ParseSelector(r.Query.Get("fieldSelector")); err == nil {
		r.Name, _ = selector.RequiresExactMatch("metadata.name")
	}
}

// isWatch reads the watch parameter: a bare "watch" and anything but a false value mean yes, as in
// apimachinery's conversion of query parameters.
func isWatch(query url.Values) bool {
	values, ok := query["watch"]
	if !ok {
		return false
	}
	parsed, err := strconv.ParseBool(values[0])
	return err != nil || parsed
}
