// SPDX-License-Identifier: Apache-2.0

package listers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// SecretLister implements client-go's SecretLister. Make one with [Secrets].
type SecretLister struct {
	lister lister[*corev1.Secret]
}

// Secrets returns a lister of the Secrets that owners reference. It returns an error
// if the source is nil or an option has an invalid value.
func Secrets(source Source[*corev1.Secret], options Options) (*SecretLister, error) {
	l, err := newLister(source, corev1.Resource("secrets"), options)
	if err != nil {
		return nil, err
	}
	return &SecretLister{l}, nil
}

// List returns the referenced Secrets in memory that match the selector, shared and
// read-only, in no order. A Secret that has not synced, or for which a Get would have
// to wait for another reason, is left out. List returns an error only for a nil
// selector.
func (l *SecretLister) List(selector labels.Selector) ([]*corev1.Secret, error) {
	return l.lister.list("", selector)
}

// Secrets returns a lister of one namespace. Its List is [SecretLister.List] in that
// namespace, or in all if it is empty, as in client-go. Its Get returns a referenced
// Secret, shared and read-only. Until the Secret has synced, Get waits, for
// Options.Timeout at most. These are the errors of Get:
//   - apierrors.IsNotFound: the server has no such Secret. If no Secret can have that name,
//     objectcache.ErrInvalidName holds, too.
//   - objectcache.ErrNotRegistered: no owner references the Secret.
//   - objectcache.ErrNotSynced, with its causes: the time-out has ended, or the server
//     refuses access.
//   - Any other error of the source.
func (l *SecretLister) Secrets(namespace string) corev1listers.SecretNamespaceLister {
	return namespaceLister[*corev1.Secret]{l.lister, namespace}
}
