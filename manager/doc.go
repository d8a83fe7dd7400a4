// SPDX-License-Identifier: Apache-2.0

// Package manager registers pods and other owners, and adds references to the
// objects that they name to an [objectcache.Store], as kubelet's Secret and
// ConfigMap managers do.
//
// # Usage
//
// Make a manager with [NewSecrets] or [NewConfigMaps], or with [New] for any store.
// Call [Manager.Run] once, in a goroutine that the program waits for. Call
// [Manager.RegisterPod] when a pod is bound to this node and whenever it changes,
// [Manager.UnregisterPod] when it has ended, and [Manager.Get] to read an object.
// Owners other than pods declare their references with [Manager.SetReferences].
//
// If users name objects in namespaces that are not theirs, set a [ReferencePolicy], and
// read with [Manager.GetFor].
//
// # Guarantees
//
//   - Registering and unregistering are idempotent and never wait for the network.
//     Both may be called before Run.
//   - An owner is identified by its UID, or by its kind, namespace and name, and
//     can be removed by either: see [Owner].
//   - The manager keeps the keys that an owner references, and never the pod. A
//     caller that changes its pod after the registration leaks no reference.
//   - Registering an owner again adds references before it deletes any, so an object
//     that is referenced before and after stays in the cache.
//   - An object that a pod names twice is referenced once.
//   - Invalid calls (a nil pod, an owner without identity) are logged to the logger
//     of Run's context, and change nothing.
//
// Objects that Get and Changes return are shared and must not be changed.
package manager
