// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// CacheOptions changes how a cache of [NewCache] works. The zero value is valid. What cache.Options have
// too, such as selectors and transforms, is set there: also whether a kind has managedFields, see NewCache.
type CacheOptions struct {
	// For are objects of the kinds that are cached by reference, such as
	// &corev1.Secret{}. Only the group, version and kind count: typed, unstructured and
	// metadata-only reads of a kind are all served so. Kinds that are not named here
	// are served by the stock cache. Default: Secrets.
	For []client.Object
	// Selected are objects of those kinds of For whose selected objects the stock cache holds as well: those of the
	// label selector, the field selector and the namespaces that cache.Options have for the kind. List, IndexField and
	// GetInformer, and so Owns and Watches, are those of the stock cache, and Get answers from it. A Get of any other
	// object, in any namespace, goes by reference, without the selectors; such an object has no events: for them,
	// make a second cache, as the example ByName does. The program needs the rights to list and watch what it selects.
	// NewCache returns an error if cache.Options select nothing.
	// Default: none; the selectors of a kind of For then restrict Get as well.
	Selected []client.Object
	// StockMetadata leaves informers and reads of metadata, such as those of
	// builder.OnlyMetadata, to the stock cache, for all kinds of For: handlers get the events of
	// all objects, and List works. A typed Get is by reference, and returns no state from before
	// the last event of the object's metadata. The program needs the rights to list and watch
	// the kinds. Default: metadata is cached by reference, too.
	StockMetadata bool
	// IdleTimeout ends the stream of an object that no Get has asked for, and drops the
	// object from memory. This happens between one and one and a half IdleTimeouts after
	// the last Get. While a kind has an informer, objects are kept for longer: see
	// [NewCache]. Default: 30 minutes, which is longer than the
	// longest pause (1,000 s) between the retries of a reconcile that fails. With a negative
	// value, no object is dropped.
	IdleTimeout time.Duration
	// SyncTimeout bounds how long Gets wait for the first state of an object, counted
	// from the first of them: a reconcile often has a context without deadline, and its
	// worker serves other objects, too. Then a Get returns the cause at once, until the
	// state is known. In an outage that is known a Get of an object that was never read returns
	// the cause after a second, as with the default of objectcache.WatchOptions.OutageGrace.
	// Default: 5 s. A negative value waits for as long as the context allows, also in an outage.
	SyncTimeout time.Duration
	// FirstReadMaxAge is by how much the first state of an object may be older than its first Get, as in
	// objectcache.WatchOptions. The stock cache bounds no age. Get after a write of [NewClient], events and
	// other representations of an object are as without it. It does not apply to the kinds of Selected, nor with
	// StockMetadata. Default: 1 s. With a negative value, the state is not older than the Get.
	FirstReadMaxAge time.Duration
	// LiveList makes List read from the server instead of returning [ErrListRefused]. It lists
	// the namespaces that cache.Options have, one after the other, with their selectors and
	// transforms, also for the kinds of Selected. It needs the permission to list the kind there.
	LiveList bool
	// Gate bounds how many streams are being opened at a time. Pass the one of other
	// stores that reach the same server as the same user. Default: a Gate of its own.
	Gate *objectcache.Gate
}

const (
	defaultIdleTimeout = 30 * time.Minute
	defaultSyncTimeout = 5 * time.Second

	defaultFirstReadMaxAge = time.Second
)

// validate returns an error that names each option with an invalid value.
func (o *CacheOptions) validate() error {
	var problems []error
	check := func(name string, objects []client.Object) {
		for i, object := range objects {
			if isNil(object) {
				problems = append(problems, fmt.Errorf("CacheOptions.%s[%d] is nil: name an object of the kind, such as &corev1.Secret{}", name, i))
			}
		}
	}
	check("For", o.For)
	check("Selected", o.Selected)
	return errors.Join(problems...)
}

// setDefaults replaces each zero value that stands for another one.
func (o *CacheOptions) setDefaults() {
	if len(o.For) == 0 {
		o.For = []client.Object{&corev1.Secret{}}
	}
	switch {
	case o.IdleTimeout == 0:
		o.IdleTimeout = defaultIdleTimeout
	case o.IdleTimeout < 0:
		o.IdleTimeout = math.MaxInt64
	}
	if o.SyncTimeout == 0 {
		o.SyncTimeout = defaultSyncTimeout
	}
	if o.FirstReadMaxAge == 0 {
		o.FirstReadMaxAge = defaultFirstReadMaxAge
	}
	if o.Gate == nil {
		o.Gate = objectcache.NewGate(objectcache.GateOptions{})
	}
}
