// SPDX-License-Identifier: Apache-2.0

// Package webv1 is the API of the example operator: version v1 of the group web.example.com, with the kind [Site].
// config/crd.yaml is its CustomResourceDefinition.
package webv1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all types of this package.
var GroupVersion = schema.GroupVersion{Group: "web.example.com", Version: "v1"}

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Site is a web site that needs Secrets, such as certificates and passwords.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec,omitempty"`
	Status SiteStatus `json:"status,omitempty"`
}

// SiteSpec is the desired state of a Site.
type SiteSpec struct {
	// SecretNames are the names of the Secrets that the site needs, in the namespace of the Site.
	SecretNames []string `json:"secretNames,omitempty"`
}

// SiteStatus is the observed state of a Site. It has no data of a Secret, and no hash of it: a short password can be
// found from its hash.
type SiteStatus struct {
	// ObservedGeneration is the generation of the Site that the status belongs to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Secrets has an entry for each name in the spec, in the same order.
	Secrets []SecretStatus `json:"secrets,omitempty"`
	// Conditions has the condition [Ready].
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Ready is the type of the condition of a Site. It is True if all its Secrets were read.
const Ready = "Ready"

// SecretStatus is the state of one Secret.
type SecretStatus struct {
	Name string `json:"name"`
	// ResourceVersion is the version of the Secret that the site uses. Empty if the Secret could not be read.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Reason is why the Secret could not be read, such as NotFound or Forbidden. Empty if it was read.
	Reason string `json:"reason,omitempty"`
}

// SiteList is a list of Sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Site `json:"items"`
}

// DeepCopyInto copies s into out.
func (s *Site) DeepCopyInto(out *Site) {
	*out = *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.SecretNames = slices.Clone(s.Spec.SecretNames)
	out.Status.Secrets = slices.Clone(s.Status.Secrets)
	out.Status.Conditions = slices.Clone(s.Status.Conditions) // a Condition has no pointers
}

// DeepCopy returns a copy that shares nothing with s.
func (s *Site) DeepCopy() *Site {
	out := &Site{}
	s.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a DeepCopy.
func (s *Site) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopyObject returns a copy that shares nothing with l.
func (l *SiteList) DeepCopyObject() runtime.Object {
	out := &SiteList{TypeMeta: l.TypeMeta, Items: make([]Site, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
