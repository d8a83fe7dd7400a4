// SPDX-License-Identifier: Apache-2.0

// Package names checks the names of resources and of their objects. All of them become
// parts of URLs.
package names

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ErrInvalidName is objectcache.ErrInvalidName.
var ErrInvalidName = errors.New("invalid name")

// Resource is what the path of a request says of its resource.
type Resource struct {
	schema.GroupVersionResource

	ClusterScoped bool
}

// String returns the resource and its group, as errors name it.
func (r Resource) String() string { return r.GroupResource().String() }

// Check returns an error if a path cannot name the resource.
func (r Resource) Check() error {
	switch {
	case len(validation.NameIsDNSLabel(r.Resource, false)) > 0:
		return fmt.Errorf("%q is no resource: name it as in a path, plural and in lower case, such as %q", r.Resource, "secrets")
	case r.Version == "":
		return errors.New("it has no version: name that of a path, such as \"v1\"")
	}
	return nil
}

// CheckKey returns an error that wraps ErrInvalidName if no object of the resource can have the key. Such an
// object is absent, which is known without a request: apierrors.IsNotFound holds. It does not hold for a key
// that no user can have written, and so is a mistake of the program: one without a name, or of the wrong scope.
func (r Resource) CheckKey(key types.NamespacedName) error {
	if mistakes := r.mistakes(key); len(mistakes) > 0 {
		return &KeyError{r.String(), key, []error{fmt.Errorf("%w: %s", ErrInvalidName, strings.Join(mistakes, "; "))}}
	}
	var problems []string
	if !r.ClusterScoped {
		for _, problem := range validation.ValidateNamespaceName(key.Namespace, false) {
			problems = append(problems, "namespace: "+problem)
		}
	}
	for _, problem := range r.nameProblems(key.Name) {
		problems = append(problems, "name: "+problem)
	}
	if len(problems) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s %q not found: %v: %s", r, Text(key), ErrInvalidName, strings.Join(problems, "; "))
	return &invalidNameError{text, apierrors.NewNotFound(r.GroupResource(), key.Name)}
}

// invalidNameError says that an object is absent, and which rules its key breaks.
type invalidNameError struct {
	text    string
	absence error // a NotFound
}

// Error returns the resource, the key and the rules.
func (e *invalidNameError) Error() string { return e.text }

// Unwrap returns both causes.
func (e *invalidNameError) Unwrap() []error { return []error{ErrInvalidName, e.absence} }

// nameProblems returns why no object can have a name. Which names are valid depends on the
// kind; all have to fit in a URL.
func (r Resource) nameProblems(name string) []string {
	switch r.GroupResource() {
	case corev1.Resource("secrets"), corev1.Resource("configmaps"):
		return validation.NameIsDNSSubdomain(name, false)
	}
	return content.IsPathSegmentName(name)
}

// mistakes returns what a key lacks or has that no key of the resource does.
func (r Resource) mistakes(key types.NamespacedName) (mistakes []string) {
	switch {
	case r.ClusterScoped && key.Namespace != "":
		mistakes = append(mistakes, "namespace: must be empty: the kind is used as cluster-scoped")
	case !r.ClusterScoped && key.Namespace == "":
		mistakes = append(mistakes, "namespace: may not be empty: the kind is used as namespaced")
	}
	if key.Name == "" {
		mistakes = append(mistakes, "name: may not be empty")
	}
	return mistakes
}

// KeyError is an error about one object, and its causes, at least one. errors.Is and
// errors.As find all of them.
type KeyError struct {
	Resource string
	Key      types.NamespacedName
	Causes   []error
}

// Error returns the resource, the key and the causes. It has the first Aside, if no cause follows the first one.
func (e *KeyError) Error() string {
	texts := make([]string, 0, len(e.Causes))
	var aside []string
	for _, cause := range e.Causes {
		if _, ok := cause.(Aside); ok { //nolint:errorlint // this cause, not one that it wraps
			aside = append(aside, cause.Error())
		} else {
			texts = append(texts, cause.Error())
		}
	}
	if len(texts) == 1 && len(aside) > 0 {
		texts = append(texts, aside[0])
	}
	head, causes := texts[0], texts[1:]
	if len(causes) > 0 {
		head += ": " + strings.Join(causes, "; ")
	}
	return fmt.Sprintf("%s %q: %s", e.Resource, Text(e.Key), head)
}

// Unwrap returns the causes.
func (e *KeyError) Unwrap() []error { return e.Causes }

// Aside is a cause of a KeyError that the text leaves out if there are others: that a context has ended does not say
// why the object is not known.
type Aside struct{ Err error }

// Error returns the text of the error.
func (a Aside) Error() string { return a.Err.Error() }

// Unwrap returns the error.
func (a Aside) Unwrap() error { return a.Err }

// Text returns a key as errors name it. An object of a cluster-scoped kind has no namespace.
func Text(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// NotAbsentError hides a NotFound that does not say that the object of a Get is absent. It
// has no Unwrap, by which apierrors.IsNotFound would find the NotFound.
type NotAbsentError struct{ Hidden error }

// Error returns the text of the hidden error.
func (e NotAbsentError) Error() string { return e.Hidden.Error() }

// Is reports whether the hidden error is target.
func (e NotAbsentError) Is(target error) bool { return errors.Is(e.Hidden, target) }
