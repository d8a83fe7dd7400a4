// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Request is one request as the server has parsed it. Its maps are shared: do not change them.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection. For a path that is not a resource
	// it is the method in lower case.
	Verb string
	// Group, Version, Resource, Subresource, Namespace and Name are from the path. For a list or watch, Name is from
	// the metadata.name field selector. Group is empty for core/v1. All are empty for a path that is not a resource.
	Group, Version, Resource, Subresource, Namespace, Name string

	Path  string
	Query url.Values
	// ContentType, Accept, AcceptEncoding and UserAgent are the headers of these names.
	ContentType, Accept, AcceptEncoding, UserAgent string

	// Replica is the number of the server that the request was sent to: 0, or that of a [Server.Replica].
	Replica int

	// Code is the HTTP status of the response, zero until it is sent.
	Code int
}

// Key returns the namespace and name of the request. Either may be empty.
func (r Request) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	http.MethodGet: "get", http.MethodHead: "get",
}

// groupResource returns the resource with its API group.
func (r *Request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

// parseRequest parses the paths RESOURCE[/NAME[/SUB]] and namespaces/NAMESPACE/RESOURCE[/NAME[/SUB]] below /api/VERSION
// and /apis/GROUP/VERSION, also with the deprecated prefix watch/, as kube-apiserver's RequestInfo does.
func parseRequest(r *http.Request) Request {
	req := Request{
		Verb:           strings.ToLower(r.Method),
		Path:           r.URL.Path,
		Query:          r.URL.Query(),
		ContentType:    r.Header.Get("Content-Type"),
		Accept:         r.Header.Get("Accept"),
		AcceptEncoding: r.Header.Get("Accept-Encoding"),
		UserAgent:      r.UserAgent(),
	}
	parts := req.parseGroupVersion()
	if len(parts) == 0 {
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

// parseGroupVersion sets group and version, and returns the parts of the path after them. It returns none, and sets
// nothing, if the path is not below a version.
func (r *Request) parseGroupVersion() []string {
	parts := strings.Split(strings.Trim(r.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2 && parts[2] != "":
		r.Version = parts[1]
		return parts[2:]
	case parts[0] == "apis" && len(parts) > 3 && parts[3] != "":
		r.Group, r.Version = parts[1], parts[2]
		return parts[3:]
	default:
		return nil
	}
}

// parseParts sets namespace, resource and name from the parts of the path, and returns the remaining parts.
func (r *Request) parseParts(parts []string) []string {
	if parts[0] == "namespaces" && len(parts) > 1 {
		r.Namespace = parts[1]
		// As in RequestInfo, the namespace of a Namespace is its own name. These are its only subresources.
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

// refineVerb replaces get by list or watch, and delete by deletecollection, for collections. It sets the name of a list
// or watch from the field selector.
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

// isWatch reports whether the query has a watch parameter. As in apimachinery's conversion of query parameters, only a
// false value turns it off: a bare "watch" does not.
func isWatch(query url.Values) bool {
	values, ok := query["watch"]
	if !ok {
		return false
	}
	parsed, err := strconv.ParseBool(values[0])
	return err != nil || parsed
}
