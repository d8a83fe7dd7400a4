// SPDX-License-Identifier: Apache-2.0

package manager

import corev1 "k8s.io/api/core/v1"

// VisitPodFunc visits the names of the objects of one kind that a pod references in
// its namespace. Names may repeat; empty names are skipped. A nil pod has none.
//
// It runs at every registration, in the goroutine of the caller. It must not change
// the pod, keep it, or call visit after it has returned. [VisitPodSecretNames] and
// [VisitPodConfigMapNames] do not allocate.
type VisitPodFunc func(pod *corev1.Pod, visit func(name string))

// VisitPodSecretNames is a [VisitPodFunc] for the Secrets that a pod names: its
// imagePullSecrets, and those in the environment of its containers and in its
// volumes.
//
// As in kubelet, only names in the pod spec count. The Secrets of a PersistentVolume
// or of the pod's ServiceAccount are not visited, except for the imagePullSecrets
// that admission copied from the ServiceAccount into the spec.
//
// Optional references are visited too: the server must be asked whether the object
// exists, and it may be created later.
//
// A valid volume has one source. If one has several, all are visited: an object
// that is not needed costs a stream, and one that is missing costs the pod.
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

// VisitPodConfigMapNames is a [VisitPodFunc] for the ConfigMaps that a pod names in
// the environment of its containers and in its volumes. It treats optional
// references and volumes with several sources as [VisitPodSecretNames] does.
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

// visitEnvironments calls each for all containers, with the fields that the types
// of containers share.
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

// envSecrets visits the Secrets of envFrom, then those of env.
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

// envConfigMaps visits the ConfigMaps of envFrom, then those of env.
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

// volumeSecrets visits the Secrets of a volume.
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

// driverSecrets visits the Secrets that kubelet passes to a storage driver. Some
// in-tree drivers have moved to CSI and others were removed, but a pod can still
// name their Secrets, and kubelet references them as well.
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

// volumeConfigMaps visits the ConfigMaps of a volume. No storage driver takes one.
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

// visitName skips the empty name. The API server admits it in a reference, for old
// clients, but no object has it.
func visitName(name string, visit func(string)) {
	if name != "" {
		visit(name)
	}
}
