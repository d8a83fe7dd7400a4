// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var leases = &resource{
	groupVersion: coordinationv1.SchemeGroupVersion,
	name:         "leases", singular: "lease", kind: "Lease", prototype: &coordinationv1.Lease{},
	namespaced: true, updateNeedsVersion: true,
	columns: []metav1.TableColumnDefinition{column("Holder")},
	cells: func(obj object) []any {
		return []any{ptr.Deref(obj.(*coordinationv1.Lease).Spec.HolderIdentity, "")}
	},
}
