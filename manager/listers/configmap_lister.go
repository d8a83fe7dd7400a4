// SPDX-License-Identifier: Apache-2.0

package listers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// ConfigMapLister implements client-go's ConfigMapLister. Make one with [ConfigMaps].
type ConfigMapLister struct {
	lister lister[*corev1.ConfigMap]
}

// ConfigMaps returns a lister of the ConfigMaps that owners reference. It returns an
// error if the source is nil or an option has an invalid value.
func ConfigMaps(source Source[*corev1.ConfigMap], options Options) (*ConfigMapLister, error) {
	l, err := newLister(source, corev1.Resource("configmaps"), options)
	if err != nil {
		return nil, err
	}
	return &ConfigMapLister{l}, nil
}

// List returns the referenced ConfigMaps in memory that match the selector, as
// [SecretLister.List] does.
func (l *ConfigMapLister) List(selector labels.Selector) ([]*corev1.ConfigMap, error) {
	return l.lister.list("", selector)
}

// ConfigMaps returns a lister of one namespace, as [SecretLister.Secrets] does.
func (l *ConfigMapLister) ConfigMaps(namespace string) corev1listers.ConfigMapNamespaceLister {
	return namespaceLister[*corev1.ConfigMap]{l.lister, namespace}
}
