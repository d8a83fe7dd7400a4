// SPDX-License-Identifier: Apache-2.0

// Package listers serves referenced Secrets and ConfigMaps through client-go's lister
// interfaces, for code that takes a lister: [corev1listers.SecretLister] and
// [corev1listers.ConfigMapLister].
//
//	lister, err := listers.Secrets(secrets, listers.Options{}) // of a manager, or of a store
//
// Set objectcache.WatchOptions.AcquireOnGet in the manager or store, unless every object is
// registered before it is read: code that takes a lister handles only NotFound, and may take
// any other error for a fault, or for a missing optional value. With AcquireOnGet a Get
// references the object by itself, until no Get has asked for it for some time: a program
// that reads an object again only after a change registers it. An object whose first read
// the server does not answer within [Options].Timeout is such an error, too: where a missing
// value does harm, call WaitForSync or WaitForOwner of the manager first.
//
// # Differences from an informer's lister
//
//   - There are only the objects that owners reference, and those that a Get has acquired
//     with AcquireOnGet. Without it, register a pod before code that reads its objects
//     sees it.
//   - Get may wait: for the first sync of the object, and for [Options].Timeout at
//     most. An informer's lister answers NotFound before the sync.
//   - NotFound means that the server has no such object. For an object that no owner
//     references the error is objectcache.ErrNotRegistered, unless AcquireOnGet is set.
//   - List returns the objects that Get would return without waiting. It opens no
//     stream.
//
// The objects are shared and must not be changed, as those of an informer's lister.
//
// # virtual-kubelet
//
// node.PodControllerConfig of virtual-kubelet takes informers, and the controller
// calls only their Lister. A type like this one is enough. Set AcquireOnGet: without it,
// virtual-kubelet starts a pod without its optional variables while their Secret is not
// registered. (nodeutil.NewNode makes its informers itself: docs/adopting/virtual-kubelet.md
// has what it needs.)
//
//	type secretInformer struct {
//		corev1informers.SecretInformer // nil
//		lister corev1listers.SecretLister
//	}
//
//	func (i secretInformer) Lister() corev1listers.SecretLister { return i.lister }
package listers
