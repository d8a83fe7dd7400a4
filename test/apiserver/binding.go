// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bind assigns a pod to a node, as a scheduler does. A pod can be bound only once.
func (c *call) bind() error {
	info, err := negotiateInput(c.r, mediaTypes)
	if err != nil {
		return err
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	gvk := corev1.SchemeGroupVersion.WithKind("Binding")
	decoded, got, err := info.Serializer.Decode(body, &gvk, nil)
	if err != nil {
		return decodeError(err, got, gvk.Kind)
	}
	binding, ok := decoded.(*corev1.Binding)
	if !ok || binding.Target.Name == "" {
		return apierrors.NewBadRequest("a Binding with a target name is required")
	}
	_, err = c.modify(c.key(), false, func(current object) (object, error) {
		pod := current.(*corev1.Pod).DeepCopy()
		if pod.Spec.NodeName != "" {
			return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name,
				fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName))
		}
		pod.Spec.NodeName = binding.Target.Name
		return pod, nil
	})
	if err != nil {
		return err
	}
	return c.respond(http.StatusCreated, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
}
