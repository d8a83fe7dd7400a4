// SPDX-License-Identifier: Apache-2.0

// Package manager turns what pods and other owners reference into references of
// an [objectcache.Store], as kubelet's Secret and ConfigMap managers do.
//
// # Usage
//
// Make a manager with [NewSecrets] or [NewConfigMaps], or with [New] over any
// store. Call [Manager.Run] once, in a goroutine that the program waits for.
// Call [Manager.RegisterPod] when a pod is bound to this node and whenever it
// changes, [Manager.UnregisterPod] when it has ended, and [Manager.Get] when an
// object is needed. Owners other than pods declare what they need with
// [Manager.SetReferences].
//
// # What is promised
//
//   - Registering and unregistering are idempotent and never wait for the
//     network. Both may be called before Run.
//   - An owner is identified by its UID, or by its kind, namespace and name, and
//     can be forgotten by either: see [Owner].
//   - What an owner held is remembered as keys, never as the pod: a caller that
//     changes its pod afterwards leaks nothing.
//   - A re-registration adds references before it takes any away, so an object
//     needed before and after never goes, not for a moment.
//   - Whatever a pod names twice counts once.
//   - What cannot be done as asked (a nil pod, an owner that is nobody) is logged,
//     to the logger of Run's context, and changes nothing.
//
// Objects that Get and Changes return are shared and must not be changed.
package manager
