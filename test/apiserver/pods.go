// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var pods = &resource{
	groupVersion: corev1.SchemeGroupVersion,
	name:         "pods", singular: "pod", kind: "Pod", prototype: &corev1.Pod{},
	shortNames: []string{"po"}, categories: []string{"all"},
	subresources: []string{"status", "binding"},
	namespaced:   true, returnsDeleted: true,
	fieldLabels: podFields,
	prepare:     preparePod,
	validate:    validatePod,
	columns:     []metav1.TableColumnDefinition{column("Ready"), column("Status"), column("Restarts")},
	cells:       podCells,
}

func podFields(obj object) fields.Set {
	pod := obj.(*corev1.Pod)
	return fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             pod.Status.PodIP,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

// preparePod keeps the old spec on an update of the status, and the old status on any other update. It raises the
// generation when the spec changes.
func preparePod(obj, old object, subresource string) {
	pod := obj.(*corev1.Pod)
	switch {
	case old == nil:
		pod.Generation = 1
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	case subresource == "status":
		pod.Spec = *old.(*corev1.Pod).Spec.DeepCopy()
		return
	case subresource == "binding":
		return
	default:
		pod.Status = *old.(*corev1.Pod).Status.DeepCopy()
	}
	defaultPodSpec(&pod.Spec)
	if old != nil && !equality.Semantic.DeepEqual(pod.Spec, old.(*corev1.Pod).Spec) {
		pod.Generation = old.GetGeneration() + 1
	}
}

// defaultPodSpec sets the defaults that clients of pods read. The scheme of client-go sets none.
func defaultPodSpec(spec *corev1.PodSpec) {
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.EnableServiceLinks == nil {
		spec.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultContainer(&containers[i])
		}
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
}

func defaultContainer(c *corev1.Container) {
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	policy := corev1.PullIfNotPresent
	if image := c.Image[strings.LastIndex(c.Image, "/")+1:]; strings.HasSuffix(image, ":latest") || !strings.ContainsAny(image, ":@") {
		policy = corev1.PullAlways
	}
	setDefault(&c.ImagePullPolicy, policy)
}

func defaultVolume(v *corev1.Volume) {
	switch {
	case v.Secret != nil && v.Secret.DefaultMode == nil:
		v.Secret.DefaultMode = new(corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil && v.ConfigMap.DefaultMode == nil:
		v.ConfigMap.DefaultMode = new(corev1.ConfigMapVolumeSourceDefaultMode)
	case v.Projected != nil && v.Projected.DefaultMode == nil:
		v.Projected.DefaultMode = new(corev1.ProjectedVolumeSourceDefaultMode)
	}
}

// validatePod checks that there are containers with names and images, and that an update changes only mutable fields of
// the spec.
func validatePod(obj, old object, subresource string) field.ErrorList {
	pod, spec := obj.(*corev1.Pod), field.NewPath("spec")
	var errs field.ErrorList
	if len(pod.Spec.Containers) == 0 {
		errs = append(errs, field.Required(spec.Child("containers"), ""))
	}
	for i, c := range pod.Spec.Containers {
		path := spec.Child("containers").Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
		} else {
			for _, msg := range validation.IsDNS1123Label(c.Name) {
				errs = append(errs, field.Invalid(path.Child("name"), c.Name, msg))
			}
		}
		if c.Image == "" {
			errs = append(errs, field.Required(path.Child("image"), ""))
		}
	}
	if old != nil && subresource == "" && len(errs) == 0 {
		errs = validatePodUpdate(&pod.Spec, &old.(*corev1.Pod).Spec, spec)
	}
	return errs
}

func validatePodUpdate(now, before *corev1.PodSpec, path *field.Path) field.ErrorList {
	if len(now.Containers) != len(before.Containers) || len(now.InitContainers) != len(before.InitContainers) {
		return field.ErrorList{field.Forbidden(path.Child("containers"), "pod updates may not add or remove containers")}
	}
	masked := now.DeepCopy()
	for i := range masked.Containers {
		masked.Containers[i].Image = before.Containers[i].Image
	}
	for i := range masked.InitContainers {
		masked.InitContainers[i].Image = before.InitContainers[i].Image
	}
	masked.ActiveDeadlineSeconds = before.ActiveDeadlineSeconds
	masked.SchedulingGates = before.SchedulingGates
	masked.Tolerations = before.Tolerations
	if equality.Semantic.DeepEqual(masked, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "pod updates may not change fields other than "+
		"`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"+
		"`spec.tolerations` (only additions to existing tolerations),"+
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)")}
}

func podCells(obj object) []any {
	pod := obj.(*corev1.Pod)
	ready, restarts := 0, int64(0)
	for _, status := range pod.Status.ContainerStatuses {
		if status.Ready {
			ready++
		}
		restarts += int64(status.RestartCount)
	}
	state := string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		state = pod.Status.Reason
	}
	if pod.DeletionTimestamp != nil {
		state = "Terminating"
	}
	return []any{fmt.Sprintf("%d/%d", ready, len(pod.Spec.Containers)), state, strconv.FormatInt(restarts, 10)}
}
