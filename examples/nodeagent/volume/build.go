// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// defaultMode is the API server's default for defaultMode: 0644 for all four kinds of volume. Pods that do not come
// from an API server have no defaultMode.
const defaultMode = corev1.SecretVolumeSourceDefaultMode

// Getter returns the objects that volumes reference. Its errors must name the object; [Build] returns them to its
// caller. An error for which apierrors.IsNotFound holds means that the object does not exist. With any other error it
// may exist.
type Getter interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// TokenGetter is implemented by a [Getter] that also returns tokens.
type TokenGetter interface {
	// Token returns a token of the pod's service account for the projection. An error for which apierrors.IsForbidden
	// holds means that the agent may not request it.
	Token(ctx context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) (string, error)
}

// Built is a volume as [BuildAllowed] computes it.
type Built struct {
	// Payload holds the files.
	Payload Payload
	// LeftOut are the tokens that the agent may not request. Payload has no file at their paths.
	LeftOut []LeftOut
	// Conflicts are the sources that have a path in common. The later one has the file.
	Conflicts []Conflict
}

// LeftOut is a token file that is missing from a volume because the agent may not request the token.
type LeftOut struct {
	// Path is the path of the file, in its clean form.
	Path string
	// Err is the cause.
	Err error
}

// Error names the source, the path and the cause.
func (l LeftOut) Error() string { return fmt.Sprintf("serviceAccountToken at %q: %v", l.Path, l.Err) }

// Unwrap returns the cause.
func (l LeftOut) Unwrap() error { return l.Err }

// Handles reports whether [Build] supports the kind of the volume: secret, configMap, projected and downwardAPI. Other
// kinds (emptyDir, hostPath, CSI…) are not this agent's task.
func Handles(volume *corev1.Volume) bool {
	_, _, ok := sources(volume)
	return ok
}

// Secret reports whether the files of the volume are secret: those of all kinds that Build supports but configMap.
// These are the kinds that kubelet keeps in memory.
func Secret(volume *corev1.Volume) bool { return Handles(volume) && volume.ConfigMap == nil }

// Build computes the files of a volume of the pod. The rules are those of Kubernetes: without items, every key is a
// file; with items, only those keys, at their paths. An optional object, or a key of it, may be absent. In a projected
// volume the later source wins if two have the same path, see [Conflict]. If one has a file where another has a folder,
// that is an error, as with kubelet.
//
// Build returns a complete volume or an error. The error joins the errors of all sources, and holds no object data.
func Build(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, getter Getter) (Payload, error) {
	built, err := BuildAllowed(ctx, pod, volume, getter)
	errs := []error{err}
	for _, l := range built.LeftOut {
		errs = append(errs, l)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return built.Payload, nil
}

// BuildAllowed is like [Build], but omits forbidden tokens and returns them: the other files of a pod's kube-api-access
// volume are of use without the token.
func BuildAllowed(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, getter Getter) (Built, error) {
	sources, mode, ok := sources(volume)
	if !ok {
		return Built{}, errors.New("not a secret, configMap, projected or downwardAPI volume")
	}
	// The API server allows only one kind for a volume.
	b := builder{pod: pod, getter: getter, mode: ptr.Deref(mode, defaultMode), files: files{payload: Payload{}, from: map[string]string{}}}
	var errs []error
	for i := range sources {
		errs = append(errs, b.add(ctx, &sources[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return Built{}, err
	}
	// Not only in Write: the cause is in the pod, and no change of an object can repair it.
	if err := errors.Join(b.files.checkFolders(), b.files.payload.validate()); err != nil {
		return Built{}, err
	}
	return b.files.built(), nil
}

// sources converts a volume of any kind to the sources of a projected volume.
func sources(volume *corev1.Volume) (sources []corev1.VolumeProjection, mode *int32, ok bool) {
	one := func(source corev1.VolumeProjection) []corev1.VolumeProjection {
		return []corev1.VolumeProjection{source}
	}
	switch {
	case volume.Secret != nil:
		s := volume.Secret
		return one(corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName}, Items: s.Items, Optional: s.Optional,
		}}), s.DefaultMode, true
	case volume.ConfigMap != nil:
		c := volume.ConfigMap
		return one(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: c.LocalObjectReference, Items: c.Items, Optional: c.Optional,
		}}), c.DefaultMode, true
	case volume.DownwardAPI != nil:
		d := volume.DownwardAPI
		return one(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: d.Items}}), d.DefaultMode, true
	case volume.Projected != nil:
		return volume.Projected.Sources, volume.Projected.DefaultMode, true
	}
	return nil, nil, false
}

// builder collects the files of one volume.
type builder struct {
	pod    *corev1.Pod
	getter Getter
	mode   int32 // of files whose item has none
	files  files
}

// add collects the files of one source. An unsupported source is an error: the pod needs its file.
func (b *builder) add(ctx context.Context, source *corev1.VolumeProjection) error {
	switch {
	case source.Secret != nil:
		s := source.Secret
		return b.addObject("secret", s.Name, s.Items, ptr.Deref(s.Optional, false), func() (map[string][]byte, error) {
			secret, err := b.getter.Secret(ctx, b.pod.Namespace, s.Name)
			if err != nil {
				return nil, err
			}
			return secret.Data, nil
		})
	case source.ConfigMap != nil:
		c := source.ConfigMap
		return b.addObject("configmap", c.Name, c.Items, ptr.Deref(c.Optional, false), func() (map[string][]byte, error) {
			configMap, err := b.getter.ConfigMap(ctx, b.pod.Namespace, c.Name)
			if err != nil {
				return nil, err
			}
			return configMapData(configMap), nil
		})
	case source.DownwardAPI != nil:
		return b.addFields(source.DownwardAPI.Items)
	case source.ServiceAccountToken != nil:
		return b.addToken(ctx, source.ServiceAccountToken)
	case source.ClusterTrustBundle != nil:
		return errors.New("source clusterTrustBundle is not supported by this agent")
	case source.PodCertificate != nil:
		return errors.New("source podCertificate is not supported by this agent")
	}
	return errors.New("a source of the volume is empty or of an unknown kind")
}

// addObject collects the keys of a Secret or ConfigMap. An optional object may be absent. If it cannot be read
// (forbidden, not synced) it may exist, and its files must not be removed.
func (b *builder) addObject(kind, name string, items []corev1.KeyToPath, optional bool, get func() (map[string][]byte, error)) error {
	if name == "" {
		return fmt.Errorf("the volume has no name of a %s", kind)
	}
	data, err := get()
	source := fmt.Sprintf("%s %q", kind, b.pod.Namespace+"/"+name)
	switch {
	case err != nil && !(optional && apierrors.IsNotFound(err)):
		return err
	case len(items) == 0:
		return b.addKeys(source, data)
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok && optional {
			continue
		}
		if !ok {
			return fmt.Errorf("%s has no key %q: add the key, or make the volume optional", source, item.Key)
		}
		key := fmt.Sprintf("%s, key %q", source, item.Key)
		if err := b.files.set(item.Path, key, File{Data: content, Mode: ptr.Deref(item.Mode, b.mode)}); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// addToken collects a token of the pod's service account.
func (b *builder) addToken(ctx context.Context, source *corev1.ServiceAccountTokenProjection) error {
	name, err := cleanPath(source.Path)
	if err != nil {
		return fmt.Errorf("serviceAccountToken: %w", err)
	}
	getter, ok := b.getter.(TokenGetter)
	if !ok {
		return errors.New("source serviceAccountToken is not supported by this getter")
	}
	token, err := getter.Token(ctx, b.pod, source)
	from := "serviceAccountToken"
	if source.Audience != "" {
		from = fmt.Sprintf("serviceAccountToken, audience %q", source.Audience)
	}
	switch {
	case apierrors.IsForbidden(err):
		b.files.leaveOut(LeftOut{name, err}, from)
		return nil
	case err != nil:
		return fmt.Errorf("serviceAccountToken at %q: %w", name, err)
	}
	return b.files.set(name, from, File{Data: []byte(token), Mode: b.mode, Token: true})
}

// addKeys collects every key as a file with that name. The API allows no slash in a key.
func (b *builder) addKeys(source string, data map[string][]byte) error {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if err := b.files.set(key, source, File{Data: data[key], Mode: b.mode}); err != nil {
			return err
		}
	}
	return nil
}

// configMapData joins Data and BinaryData of a ConfigMap; the API does not allow a key in both. BinaryData is not
// copied: it is the object's own memory, like the Data of a Secret.
func configMapData(configMap *corev1.ConfigMap) map[string][]byte {
	data := make(map[string][]byte, len(configMap.Data)+len(configMap.BinaryData))
	for key, text := range configMap.Data {
		data[key] = []byte(text)
	}
	for key, content := range configMap.BinaryData {
		data[key] = content
	}
	return data
}
