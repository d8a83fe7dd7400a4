// SPDX-License-Identifier: Apache-2.0

// Package resource has the kinds of objects that stores read, and how to reach them.
//
// A [Resource] is made of a client and of the group, version and resource of a path. A
// store of package objectcache takes it: objectcache.NewStore returns an error if it is
// invalid. Making one sends no request.
//
// [ConfigFor] makes the config of a client for many streams. [NotServedError],
// [ErrTransform] and [ErrClientLimited] are errors that Gets of a store return.
package resource
