// SPDX-License-Identifier: Apache-2.0

// Package kubelet implements kubelet's own interfaces for Secrets and ConfigMaps with refwatch:
// k8s.io/kubernetes/pkg/kubelet/util/manager.Manager, pkg/kubelet/secret.Manager and pkg/kubelet/configmap.Manager, of
// the version in go.mod.
//
// It shows that refwatch can take the place of kubelet's managers. Its tests run kubelet's manager and this one through
// the same scenarios, and kubelet's volume plugins on top of this one. It is a module of its own, because no other
// module needs k8s.io/kubernetes.
//
// [NewWatchingSecretManager] and [NewWatchingConfigMapManager] have the shape of kubelet's constructors. For any other
// strategy make a manager.Manager, and pass it to [NewSecretManager] or [NewConfigMapManager].
//
// # Differences
//
//   - Kubelet's managers start goroutines in their constructors, which never end. These managers have [Manager.Run]. A
//     Get before Run waits for it.
//   - A pod is identified by its UID, and by its namespace and name only if it has none. Kubelet's managers identify it
//     by all three.
//   - The error of a sync that failed begins with the text of kubelet's error. The cause follows, and errors.Is and
//     errors.As find it.
//   - After Run has ended, a Get fails at once. It serves no state from memory.
//   - A name that no object can have is NotFound, even if no pod was registered with it.
//
// The objects are shared and must not be changed, as those of kubelet's managers.
package kubelet
