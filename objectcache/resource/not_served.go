// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/names"
)

// NotServedError is the cause when the server answered a list or a watch with 404:
// it does not serve the path. The group, the version, the resource or the scope is
// wrong, its CustomResourceDefinition is not installed yet, or a proxy without a backend
// answered. The text says what to check, and whether the answer is an API server's. Such an
// answer says nothing about an object, so apierrors.IsNotFound does not hold for it. The
// store asks again, and notices when the path is served.
type NotServedError struct {
	// Resource is that of the path.
	Resource schema.GroupVersionResource
	// ClusterScoped is set if the path has no namespace.
	ClusterScoped bool
	// Code and Reason are those of the answer.
	Code   int32
	Reason metav1.StatusReason

	foreign string // the type of an answer that is not an API server's, as redact.Error has left it
	answer  names.NotAbsentError
}

// Error returns the path, what to check, and the text of the answer.
func (e *NotServedError) Error() string {
	if e.Resource.Empty() {
		return fmt.Sprintf("the path is not served (%d): %v", e.Code, e.answer)
	}
	scope := "namespaced"
	if e.ClusterScoped {
		scope = "cluster-scoped"
	}
	switch {
	case e.foreign != "":
		return fmt.Sprintf("the path %s is not served (%d): the answer, which is %s, is not an API server's: "+
			"look for a proxy, or a wrong path in the URL of the server: %v", e.path(), e.Code, e.foreign, e.answer)
	case scheme.Scheme.IsGroupRegistered(e.Resource.Group):
		return fmt.Sprintf("the path %s is not served (%d): check the version, the resource and the path in the URL of the server, "+
			"and that the kind is %s: %v", e.path(), e.Code, scope, e.answer)
	}
	return fmt.Sprintf("the path %s is not served (%d): check the group, the version and the resource, "+
		"that its CustomResourceDefinition is installed, and that the kind is %s: %v", e.path(), e.Code, scope, e.answer)
}

// IsForeign reports whether something else than an API server has answered, such as a proxy.
func (e *NotServedError) IsForeign() bool { return e.foreign != "" }

// path returns the path of the requests, without the namespace itself.
func (e *NotServedError) path() string {
	path := "/apis/" + e.Resource.Group
	if e.Resource.Group == "" {
		path = "/api"
	}
	path += "/" + e.Resource.Version
	if !e.ClusterScoped {
		path += "/namespaces/NAMESPACE"
	}
	return path + "/" + e.Resource.Resource
}

// Unwrap returns the answer. errors.Is finds it, and errors.As does not.
func (e *NotServedError) Unwrap() error { return e.answer }

// NotServed returns err, as a [NotServedError] if it is a 404 of the server's, for a program that reads beside
// its stores. A [Source] need not call it.
func NotServed(err error) error {
	if err == nil { // at no cost: each event asks
		return nil
	}
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return err
	}
	status := answer.Status()
	e := &NotServedError{Code: status.Code, Reason: status.Reason, answer: names.NotAbsentError{Hidden: err}}
	if status.Details == nil {
		return e
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse && strings.HasPrefix(cause.Message, "text/") {
			e.foreign = cause.Message
		}
	}
	return e
}

// explained returns the cause of a failure with what to check about the resource.
func (r *Resource[T]) explained(cause error) error {
	if cause == nil {
		return nil
	}
	var unserved *NotServedError
	switch {
	case errors.As(cause, &unserved) && unserved.Resource.Empty():
		complete := *unserved
		complete.Resource, complete.ClusterScoped = r.pathResource(), r.clusterScoped
		return &complete
	case r.clusterScoped && errors.Is(cause, cache.ErrForeign):
		return fmt.Errorf("%w (the kind is used as cluster-scoped: is it namespaced?)", cause)
	}
	return cause
}
