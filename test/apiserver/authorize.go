// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// userName is the name of the only user, whom the token authenticates.
const userName = "admin"

// authorizer decides which requests are allowed.
type authorizer struct {
	mu    sync.Mutex
	allow func(Request) bool // nil: everything is allowed
}

// Authorize refuses, from now on, every authenticated request for which allow returns false: with 403 and the text of
// kube-apiserver's RBAC authorizer. A SelfSubjectAccessReview calls allow too, so that a client that asks first gets
// the same answer. A nil allow allows everything again, as a new server does. Open watches continue.
//
// Decide by Verb, Group, Resource, Subresource, Namespace and Name alone, as RBAC does: a review has no other fields
// beside Version, which may be "*". As in kube-apiserver, the Name of a list or watch is that of its metadata.name
// field selector, and so resourceNames of a Role apply to it.
//
// Reviews themselves, discovery and health checks are always allowed, as the default ClusterRoles allow them to every
// user. The server calls allow concurrently and without locks.
func (s *Server) Authorize(allow func(Request) bool) {
	s.authorizer.mu.Lock()
	defer s.authorizer.mu.Unlock()
	s.authorizer.allow = allow
}

// allows reports whether the request is allowed.
func (a *authorizer) allows(r Request) bool {
	if r.Resource == "" || r.groupResource() == authorizationv1.Resource("selfsubjectaccessreviews") {
		return true
	}
	a.mu.Lock()
	allow := a.allow
	a.mu.Unlock()
	return allow == nil || allow(r)
}

// forbidden returns kube-apiserver's error for a request that no RBAC rule allows.
func forbidden(r Request) error {
	resource, scope := r.Resource, "at the cluster scope"
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", r.Namespace)
	}
	//nolint:staticcheck // kube-apiserver's text begins with a capital letter.
	return apierrors.NewForbidden(r.groupResource(), r.Name, fmt.Errorf(
		"User %q cannot %s resource %q in API group %q %s", userName, r.Verb, resource, r.Group, scope))
}
