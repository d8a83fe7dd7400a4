// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// addFields collects downwardAPI items: fields of the pod's metadata. Resource fields are not supported: they depend on
// the capacity of the node, which the agent does not know.
func (b *builder) addFields(items []corev1.DownwardAPIVolumeFile) error {
	for _, item := range items {
		switch {
		case item.ResourceFieldRef != nil:
			return fmt.Errorf("downwardAPI path %q: resourceFieldRef is not supported by this agent", item.Path)
		case item.FieldRef == nil:
			return fmt.Errorf("downwardAPI path %q has no fieldRef", item.Path)
		}
		value, err := podField(b.pod, item.FieldRef.FieldPath)
		if err != nil {
			return fmt.Errorf("downwardAPI path %q: %w", item.Path, err)
		}
		file := File{Data: []byte(value), Mode: ptr.Deref(item.Mode, b.mode)}
		if err := b.files.set(item.Path, fmt.Sprintf("downwardAPI, field %q", item.FieldRef.FieldPath), file); err != nil {
			return fmt.Errorf("downwardAPI: %w", err)
		}
	}
	return nil
}

// podField returns the file content that Kubernetes defines for a field path in a downwardAPI volume. It is empty for
// an absent label or annotation.
func podField(pod *corev1.Pod, fieldPath string) (string, error) {
	switch fieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	}
	if field, key, ok := strings.Cut(strings.TrimSuffix(fieldPath, "']"), "['"); ok && strings.HasSuffix(fieldPath, "']") {
		// As in the API server's validation, keys of annotations are not case-sensitive.
		switch field {
		case "metadata.labels":
			return pod.Labels[key], checkKey(fieldPath, key)
		case "metadata.annotations":
			return pod.Annotations[key], checkKey(fieldPath, strings.ToLower(key))
		}
	}
	return "", fmt.Errorf("field %q is not supported: use metadata.name, namespace, uid, labels or annotations", fieldPath)
}

// checkKey returns an error for a key that no label or annotation can have.
func checkKey(fieldPath, key string) error {
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return fmt.Errorf("field %q: the key in brackets is not a valid key: %s", fieldPath, strings.Join(problems, "; "))
	}
	return nil
}

// formatMap returns lines of key="value" in the order of keys, as documented for downwardAPI volumes.
func formatMap(values map[string]string) string {
	lines := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, key+"="+strconv.Quote(values[key]))
	}
	return strings.Join(lines, "\n")
}
