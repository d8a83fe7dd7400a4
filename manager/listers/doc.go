// SPDX-License-Identifier: Apache-2.0

// Package listers serves referenced Secrets and ConfigMaps through client-go's lister
// interfaces, for code that takes a lister: [corev1listers.SecretLister] and
// [corev1listers.ConfigMapLister].
//
//	lister, err := listers.Secrets(secrets, listers.Options{}) // of a manager, or of a store
//
// # Differences from an informer's lister
//
//   - There are only the objects that owners reference. Register a pod before code
//     that reads its objects sees it.
//   - Get may wait: for the first sync of the object, and for [Options].Timeout at
//     most. An informer's lister answers NotFound before the sync.
//   - NotFound means that the server has no such object. For an object that no owner
//     references the error is objectcache.ErrNotRegistered.
//   - List returns the objects that Get would return without waiting. It opens no
//     stream.
//
// The objects are shared and must not be changed, as those of an informer's lister.
//
// # virtual-kubelet
//
// node.PodControllerConfig of virtual-kubelet takes informers, and the controller
// calls only their Lister. A type like this one is enough:
//
//	type secretInformer struct {
//		corev1informers.SecretInformer // nil
//		lister corev1listers.SecretLister
//	}
//
//	func (i secretInformer) Lister() corev1listers.SecretLister { return i.lister }
package listers
