// SPDX-License-Identifier: Apache-2.0

// Package kinds has what package resource tells the stores of a resource.
package kinds

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/internal/states"
)

// Kind is a valid resource that has a client.
type Kind[T cache.Object] struct {
	Path          schema.GroupVersionResource
	ClusterScoped bool
	HasREST       bool // it has a REST client, and no source of its own
	Prompt        bool // no code of the program runs when an object is decoded and stored
	Immutable     func(T) bool
	// CheckGet returns an error if the resource has a selector, which Read does not apply.
	CheckGet func() error
	CheckKey func(types.NamespacedName) error // that of the resource
	// RateLimit returns an error that names the rate limit of the client, and nil if it has none.
	RateLimit func() error
	// Source returns the source of one object.
	Source func(types.NamespacedName) listwatch.Source
	// Read reads the newest state of an object with one GET, also that of an absent object, whose version is not known.
	// An error is that of the client, without object data: for a path that is not served it is the server's 404.
	Read func(context.Context, types.NamespacedName) (states.State[T], error)
	// Transform returns what a store keeps of an object that Read has returned, which it may change: without
	// managedFields, unless stores keep them, after the function of WithTransform. It fails with resource.ErrTransform.
	Transform func(T) (T, error)
	// Error returns an error that names the resource and the key. errors.Is and errors.As find all causes.
	Error func(key types.NamespacedName, causes ...error) error
	// Explain returns the cause of a failure with what to check about the resource.
	Explain func(error) error
}
