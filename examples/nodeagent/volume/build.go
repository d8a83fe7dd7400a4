// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// defaultMode is what the API server fills in where a volume names no defaultMode. It is the same, 0644,
// for all four kinds of volume; pods made without an API server (tests, files) come without it.
const defaultMode = corev1.SecretVolumeSourceDefaultMode

// Getter brings the objects that volumes name. Its errors must name the object, and reach the caller of
// [Build] as they are. One for which apierrors.IsNotFound holds means "known to be absent", any other "not
// known".
type Getter interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// TokenGetter is implemented by a [Getter] that brings tokens as well.
type TokenGetter interface {
	// Token brings a token of the pod's service account, as the projection asks for it. An error for which
	// apierrors.IsForbidden holds means that this agent may not have one.
	Token(ctx context.Context, pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) (string, error)
}

// LeftOut is a file that a volume is built without, because this agent may not have what belongs in it.
type LeftOut struct {
	// Path is where the file would be, in its clean form.
	Path string
	// Err is why it is not.
	Err error
}

// Error names the source, the path and the cause.
func (l LeftOut) Error() string { return fmt.Sprintf("serviceAccountToken at %q: %v", l.Path, l.Err) }

// Unwrap returns the cause.
func (l LeftOut) Unwrap() error { return l.Err }

// Handles tells whether the volume is of a kind that [Build] knows: secret, configMap, projected or
// downwardAPI. Others (emptyDir, hostPath, CSI…) are somebody else's work.
func Handles(volume *corev1.Volume) bool {
	_, _, ok := sources(volume)
	return ok
}

// Build computes what a volume of the pod holds now. It keeps Kubernetes' rules: without items every key
// is a file; with items only those, at their paths; an optional object may be absent, and so may the keys
// of an optional one; in a projected volume the later source wins where two give the same path.
//
// A volume is built completely or not at all. The error joins the causes of every source that failed, so
// that one look shows all that is missing, and it never holds object data.
func Build(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, getter Getter) (Payload, error) {
	payload, leftOut, err := BuildAllowed(ctx, pod, volume, getter)
	errs := []error{err}
	for _, l := range leftOut {
		errs = append(errs, l)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return payload, nil
}

// BuildAllowed is [Build], except that tokens which are forbidden are left out and returned as such: each pod's
// kube-api-access volume has one, beside files that are of use without it.
func BuildAllowed(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, getter Getter) (Payload, []LeftOut, error) {
	sources, mode, ok := sources(volume)
	if !ok {
		return nil, nil, errors.New("not a secret, configMap, projected or downwardAPI volume")
	}
	// The API server lets a pod set one of the kinds only, so the first that is set is the one.
	b := builder{pod: pod, getter: getter, mode: ptr.Deref(mode, defaultMode), payload: Payload{}}
	var errs []error
	for i := range sources {
		errs = append(errs, b.add(ctx, &sources[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	// Here already and not only when it is written: the cause is in the pod, and no object can mend it.
	if err := b.payload.validate(); err != nil {
		return nil, nil, err
	}
	return b.payload, b.leftOut, nil
}

// sources returns the volume as if it were a projected one, so that every kind takes the same way.
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
	pod     *corev1.Pod
	getter  Getter
	mode    int32 // of files whose item names none
	payload Payload
	leftOut []LeftOut
}

// add collects the files of one source, the first of the kinds that is set. What this agent does not support
// is an error and not left out: a pod that asks for a trust bundle would wait for it in vain.
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
	return errors.New("a source of the volume is empty, or of a kind that this agent does not know")
}

// addObject collects the keys of a Secret or ConfigMap. Only absence excuses an optional object: one that
// cannot be read (forbidden, not synced) may well exist, and its files must not vanish for that.
func (b *builder) addObject(kind, name string, items []corev1.KeyToPath, optional bool, get func() (map[string][]byte, error)) error {
	if name == "" {
		return fmt.Errorf("the volume names no %s", kind)
	}
	data, err := get()
	switch {
	case err != nil && !(optional && apierrors.IsNotFound(err)):
		return err
	case len(items) == 0:
		return b.addKeys(data)
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok && optional {
			continue
		}
		if !ok {
			return fmt.Errorf("%s %q has no key %q: add the key, or make the volume optional", kind, b.pod.Namespace+"/"+name, item.Key)
		}
		if err := b.payload.set(item.Path, File{Data: content, Mode: ptr.Deref(item.Mode, b.mode)}); err != nil {
			return fmt.Errorf("%s %q, key %q: %w", kind, b.pod.Namespace+"/"+name, item.Key, err)
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
		return errors.New("source serviceAccountToken is not supported here")
	}
	token, err := getter.Token(ctx, b.pod, source)
	switch {
	case apierrors.IsForbidden(err):
		b.leftOut = append(b.leftOut, LeftOut{name, err})
		return nil
	case err != nil:
		return fmt.Errorf("serviceAccountToken at %q: %w", name, err)
	}
	return b.payload.set(name, File{Data: []byte(token), Mode: b.mode})
}

// addKeys collects every key as a file of that name. The API allows only names without a slash as keys.
func (b *builder) addKeys(data map[string][]byte) error {
	for key, content := range data {
		if err := b.payload.set(key, File{Data: content, Mode: b.mode}); err != nil {
			return err
		}
	}
	return nil
}

// configMapData joins the two maps of a ConfigMap; the API refuses a key that is in both. Text is copied, as
// bytes; what is binary is the object's own memory, like a Secret's data.
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
