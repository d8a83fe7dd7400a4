// SPDX-License-Identifier: Apache-2.0

// Package controller is the controller of the example operator. It keeps the status of each Site equal to the state of
// the Secrets that the Site names.
//
// [New] makes a controller-runtime manager with one controller. The controller is as any other that reads Secrets: it
// calls Get in its reconcile, and Watches to be called again when a Secret changes. Only the option NewCache of the
// manager differs between [Refwatch] and [Stock]:
//
//   - With [Refwatch], the manager's cache holds the Secrets that the controller has asked for, and watches each by
//     name. A Role with their names in resourceNames is enough.
//   - With [Stock], controller-runtime's own cache lists and watches all Secrets, and holds them in memory. Without
//     the right to list all of them the manager ends after its CacheSyncTimeout.
package controller
