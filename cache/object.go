// SPDX-License-Identifier: Apache-2.0

// Package cache has what all packages of refwatch call an object, and the errors of answers that
// cannot be right. client-go has a package of that name, with stores.
package cache

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is any Kubernetes object with metadata: every generated API type as a
// pointer, and *unstructured.Unstructured.
type Object interface {
	metav1.Object
	runtime.Object
}

var (
	// ErrForeign means that an object is not the one that was asked for: it has another
	// name, namespace or type.
	ErrForeign = errors.New("foreign object")
	// ErrMalformed means that a server's answer cannot be right: a resource version is
	// missing, "0" or not a number, an object is newer than the read that holds it, or
	// package reflector cannot decode the answer.
	ErrMalformed = errors.New("malformed")
)
