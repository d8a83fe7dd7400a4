// SPDX-License-Identifier: Apache-2.0

// Package access returns the permissions that a program needs to read objects by their
// names.
//
// [Roles] and [ClusterRoles] return RBAC rules with resourceNames. [Objects] names what is
// read: make it with [Secrets] or [ConfigMaps], with [Of] for a store, or with the method
// Access of a manager.
//
// # Grant the least
//
// Stores with [objectcache.WatchOptions], the default, need the verbs list and watch of each
// object, those with [objectcache.TTLOptions] or [objectcache.DirectOptions] need get. [Of] knows
// the verbs of a store. A store that lacks a right that it needs logs it once: the refused verb,
// and the verbs of each strategy. To ask before a Get fails, run kubectl auth can-i, or create a
// SelfSubjectAccessReview.
//
// A store that watches has two uses for get: a GET answers a first Get sooner, and GETs read
// the objects where lists and watches fail. So the Roles have get, list and watch. Who may list an
// object by its name can read all of it, so get reveals nothing more. To leave it out, set the verbs:
//
//	secrets := access.Secrets(keys...)
//	secrets.Verbs = []string{"list", "watch"}
package access
