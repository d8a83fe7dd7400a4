// SPDX-License-Identifier: Apache-2.0

package manager

import corev1 "k8s.io/api/core/v1"

// VisitPodFunc visits the names of the objects of one kind that a pod names, in
// the pod's namespace. Names may repeat; empty names are skipped. A nil pod names
// nothing.
//
// It runs at every registration, on the goroutine of the caller: it must neither
// change the pod nor keep it, nor call visit after it has returned. [VisitPodSecretNames]
// and [VisitPodConfigMapNames] do not allocate.
type VisitPodFunc func(pod *corev1.Pod, visit func(name string))

// VisitPodSecretNames visits the Secrets that pod names: to pull images, in the
// environment of its containers, and in its volumes. It is a [VisitPodFunc].
//
// Only what the pod spec says itself counts, as for kubelet. The Secrets of a
// PersistentVolume or of the pod's ServiceAccount are not visited, save for the
// imagePullSecrets that admission has copied from the latter into the spec.
//
// A reference that is optional counts like any other: to say that the object is
// absent takes the same look at the server, and it may appear later.
//
// A valid volume has one source. If one has several, all are visited: an object
// that is cached in vain costs a stream, one that is missing costs the pod.
func VisitPodSecretNames(pod *corev1.Pod, visit func(name string)) {
	if pod == nil || visit == nil {
		return
	}
	spec := &pod.Spec
	for i := range spec.ImagePullSecrets {
		visitRef(&spec.ImagePullSecrets[i], visit)
	}
	visitEnvironments(spec, envSecrets, visit)
	for i := range spec.Volumes {
		volumeSecrets(&spec.Volumes[i].VolumeSource, visit)
	}
}

// VisitPodConfigMapNames visits the ConfigMaps that pod names, in the environment of its
// containers and in its volumes. It is a [VisitPodFunc], and treats a volume with
// several sources as [VisitPodSecretNames] does.
func VisitPodConfigMapNames(pod *corev1.Pod, visit func(name string)) {
	if pod == nil || visit == nil {
		return
	}
	spec := &pod.Spec
	visitEnvironments(spec, envConfigMaps, visit)
	for i := range spec.Volumes {
		volumeConfigMaps(&spec.Volumes[i].VolumeSource, visit)
	}
}

// environment visits the names in one container's environment.
type environment func(env []corev1.EnvVar, from []corev1.EnvFromSource, visit func(string))

// visitEnvironments calls each for the containers of every sort. An ephemeral
// container has a type of its own, so what they have in common is handed on.
func visitEnvironments(spec *corev1.PodSpec, each environment, visit func(string)) {
	for i := range spec.InitContainers {
		each(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom, visit)
	}
	for i := range spec.Containers {
		each(spec.Containers[i].Env, spec.Containers[i].EnvFrom, visit)
	}
	for i := range spec.EphemeralContainers {
		each(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom, visit)
	}
}

// envSecrets visits the Secrets taken whole (envFrom), then those by key (env).
func envSecrets(env []corev1.EnvVar, from []corev1.EnvFromSource, visit func(string)) {
	for i := range from {
		if source := from[i].SecretRef; source != nil {
			visitRef(&source.LocalObjectReference, visit)
		}
	}
	for i := range env {
		if source := env[i].ValueFrom; source != nil && source.SecretKeyRef != nil {
			visitRef(&source.SecretKeyRef.LocalObjectReference, visit)
		}
	}
}

// envConfigMaps visits the ConfigMaps in the order of envSecrets.
func envConfigMaps(env []corev1.EnvVar, from []corev1.EnvFromSource, visit func(string)) {
	for i := range from {
		if source := from[i].ConfigMapRef; source != nil {
			visitRef(&source.LocalObjectReference, visit)
		}
	}
	for i := range env {
		if source := env[i].ValueFrom; source != nil && source.ConfigMapKeyRef != nil {
			visitRef(&source.ConfigMapKeyRef.LocalObjectReference, visit)
		}
	}
}

// volumeSecrets visits the Secrets of the volumes that hold their content.
func volumeSecrets(source *corev1.VolumeSource, visit func(string)) {
	if s := source.Secret; s != nil {
		visitName(s.SecretName, visit)
	}
	if s := source.Projected; s != nil {
		for i := range s.Sources {
			if secret := s.Sources[i].Secret; secret != nil {
				visitRef(&secret.LocalObjectReference, visit)
			}
		}
	}
	driverSecrets(source, visit)
}

// driverSecrets visits the Secrets that the node hands to a storage driver. Some
// of the in-tree drivers were moved to CSI and others are gone, but a pod can
// still name their Secrets, and kubelet references these as well.
func driverSecrets(source *corev1.VolumeSource, visit func(string)) {
	if s := source.AzureFile; s != nil {
		visitName(s.SecretName, visit)
	}
	if s := source.CephFS; s != nil {
		visitRef(s.SecretRef, visit)
	}
	if s := source.Cinder; s != nil {
		visitRef(s.SecretRef, visit)
	}
	if s := source.CSI; s != nil {
		visitRef(s.NodePublishSecretRef, visit)
	}
	if s := source.FlexVolume; s != nil {
		visitRef(s.SecretRef, visit)
	}
	if s := source.ISCSI; s != nil {
		visitRef(s.SecretRef, visit)
	}
	if s := source.RBD; s != nil {
		visitRef(s.SecretRef, visit)
	}
	if s := source.ScaleIO; s != nil {
		visitRef(s.SecretRef, visit)
	}
	if s := source.StorageOS; s != nil {
		visitRef(s.SecretRef, visit)
	}
}

// volumeConfigMaps visits the ConfigMaps of the volumes that hold their content.
// No storage driver takes one.
func volumeConfigMaps(source *corev1.VolumeSource, visit func(string)) {
	if s := source.ConfigMap; s != nil {
		visitName(s.Name, visit)
	}
	if s := source.Projected; s != nil {
		for i := range s.Sources {
			if configMap := s.Sources[i].ConfigMap; configMap != nil {
				visitRef(&configMap.LocalObjectReference, visit)
			}
		}
	}
}

func visitRef(ref *corev1.LocalObjectReference, visit func(string)) {
	if ref != nil {
		visitName(ref.Name, visit)
	}
}

// visitName skips the empty name. The API server lets it pass in a reference,
// for the sake of old clients, and no object has it.
func visitName(name string, visit func(string)) {
	if name != "" {
		visit(name)
	}
}
