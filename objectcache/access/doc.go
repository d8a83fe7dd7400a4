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
// the verbs of a store. A store that lacks a right logs it once: the refused verb, and the verbs of
// each strategy. To ask before a Get fails, run kubectl auth can-i, or create a
// SelfSubjectAccessReview.
package access
