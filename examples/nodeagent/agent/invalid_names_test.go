// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNamesThatCannotExist: the API server accepts any name in a pod. An optional reference to a name that no object
// can have is an empty volume, and the other sources of a projected volume are written. A required one fails with the
// rule that the name breaks. All three pods are synced, and the agent is ready.
func TestNamesThatCannotExist(t *testing.T) {
	r := newRig(t)
	r.setSecret("tls", "k", "1")
	optional := true
	secret := func(name string, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: optional}}
	}
	configMap := func(name string, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional,
		}}
	}
	projected := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "My_Secret"}, Optional: &optional}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "My_Config"}, Optional: &optional}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "tls"}}},
	}}}
	pod := r.createPod("web", "node-1",
		corev1.Volume{Name: "secret", VolumeSource: secret("My_Secret", &optional)},
		corev1.Volume{Name: "config", VolumeSource: configMap("My_Config", &optional)},
		corev1.Volume{Name: "projected", VolumeSource: projected},
		corev1.Volume{Name: "required", VolumeSource: secret("My_Secret", nil)},
	)
	r.start()
	r.eventuallyHas(pod, "secret")
	r.eventuallyHas(pod, "config")
	r.eventuallyHas(pod, "projected", "k", "1")
	r.eventuallyFails(pod, "required", `secrets "default/My_Secret" not found: invalid name: `, "lower case")
	r.eventually("ready", r.agent.Ready)
	if !r.agent.secrets.HasSynced() || !r.agent.configMaps.HasSynced() {
		t.Error("the managers have not synced")
	}
	r.setSecret("tls", "k", "2")
	r.eventuallyHas(pod, "projected", "k", "2")
	for _, request := range r.server.Requests() {
		if request.Name == "My_Secret" || request.Name == "My_Config" {
			t.Errorf("got the request %+v", request)
		}
	}
}
