// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

var namespaces = &resource{
	groupVersion: corev1.SchemeGroupVersion,
	name:         "namespaces", singular: "namespace", kind: "Namespace", prototype: &corev1.Namespace{},
	shortNames: []string{"ns"}, subresources: []string{"status"}, returnsDeleted: true,
	fieldLabels: func(obj object) fields.Set {
		return fields.Set{"status.phase": string(obj.(*corev1.Namespace).Status.Phase)}
	},
	prepare: prepareNamespace,
	columns: []metav1.TableColumnDefinition{column("Status")},
	cells:   func(obj object) []any { return []any{string(obj.(*corev1.Namespace).Status.Phase)} },
}

// initialNamespaces are the namespaces of a new server, as of a new cluster.
var initialNamespaces = []string{metav1.NamespaceDefault, corev1.NamespaceNodeLease, metav1.NamespacePublic, metav1.NamespaceSystem}

func prepareNamespace(obj, old object, subresource string) {
	ns := obj.(*corev1.Namespace)
	switch {
	case old == nil:
		ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	case subresource == "status":
		ns.Spec = *old.(*corev1.Namespace).Spec.DeepCopy()
	default:
		ns.Status = *old.(*corev1.Namespace).Status.DeepCopy()
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func (s *store) createInitialNamespaces() error {
	for _, name := range initialNamespaces {
		ns := namespaces.newObject()
		ns.SetName(name)
		ns.SetUID(uuid.NewUUID())
		ns.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
		prepareNamespace(ns, nil, "")
		if _, err := s.swap(s.tableOf(namespaces), types.NamespacedName{Name: name}, nil, ns); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return nil
}
