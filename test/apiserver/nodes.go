// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

var nodes = &resource{
	groupVersion: corev1.SchemeGroupVersion,
	name:         "nodes", singular: "node", kind: "Node", prototype: &corev1.Node{},
	shortNames: []string{"no"}, subresources: []string{"status"},
	fieldLabels: func(obj object) fields.Set {
		return fields.Set{"spec.unschedulable": strconv.FormatBool(obj.(*corev1.Node).Spec.Unschedulable)}
	},
	prepare: prepareNode,
	columns: []metav1.TableColumnDefinition{column("Status"), column("Version")},
	cells:   nodeCells,
}

// prepareNode keeps the old spec on an update of the status, and the old status on any other update. Unlike pods, nodes
// are created with their status, and kube-apiserver does not set their generation.
func prepareNode(obj, old object, subresource string) {
	node := obj.(*corev1.Node)
	if old == nil {
		return
	}
	before := old.(*corev1.Node)
	if subresource == "status" {
		node.Spec = *before.Spec.DeepCopy()
		return
	}
	node.Status = *before.Status.DeepCopy()
}

func nodeCells(obj object) []any {
	node := obj.(*corev1.Node)
	state := "Unknown"
	for _, condition := range node.Status.Conditions {
		switch {
		case condition.Type != corev1.NodeReady:
		case condition.Status == corev1.ConditionTrue:
			state = "Ready"
		default:
			state = "NotReady"
		}
	}
	if node.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return []any{state, node.Status.NodeInfo.KubeletVersion}
}
