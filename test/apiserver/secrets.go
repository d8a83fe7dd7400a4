// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var secrets = &resource{
	groupVersion: corev1.SchemeGroupVersion,
	name:         "secrets", singular: "secret", kind: "Secret", prototype: &corev1.Secret{}, namespaced: true,
	fieldLabels: func(obj object) fields.Set { return fields.Set{"type": string(obj.(*corev1.Secret).Type)} },
	prepare:     prepareSecret,
	validate:    validateSecret,
	columns:     []metav1.TableColumnDefinition{column("Type"), column("Data")},
	cells: func(obj object) []any {
		secret := obj.(*corev1.Secret)
		return []any{string(secret.Type), int64(len(secret.Data))}
	},
}

var configMaps = &resource{
	groupVersion: corev1.SchemeGroupVersion,
	name:         "configmaps", singular: "configmap", kind: "ConfigMap", prototype: &corev1.ConfigMap{},
	shortNames: []string{"cm"}, namespaced: true,
	validate: validateConfigMap,
	columns:  []metav1.TableColumnDefinition{column("Data")},
	cells: func(obj object) []any {
		configMap := obj.(*corev1.ConfigMap)
		return []any{int64(len(configMap.Data) + len(configMap.BinaryData))}
	},
}

func prepareSecret(obj, old object, _ string) {
	secret := obj.(*corev1.Secret)
	// stringData is write-only and takes precedence over data.
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
	setDefault(&secret.Type, corev1.SecretTypeOpaque)
}

func validateSecret(obj, old object, _ string) field.ErrorList {
	secret, data := obj.(*corev1.Secret), field.NewPath("data")
	var errs field.ErrorList
	if old != nil {
		before := old.(*corev1.Secret)
		errs = apivalidation.ValidateImmutableField(secret.Type, before.Type, field.NewPath("type"))
		if isTrue(before.Immutable) {
			errs = append(errs, validateStaysImmutable(secret.Immutable)...)
			errs = append(errs, validateUnchanged(secret.Data, before.Data, data)...)
		}
	}
	size := 0
	for key, value := range secret.Data {
		errs = append(errs, validateDataKey(key, data)...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "", corev1.MaxSecretSize))
	}
	return append(errs, validateSecretType(secret, data)...)
}

// validateSecretType checks that data has the keys that the type requires. It does not check their values, because an
// error about a value could reveal it.
func validateSecretType(secret *corev1.Secret, data *field.Path) field.ErrorList {
	has := func(key string) bool { _, ok := secret.Data[key]; return ok }
	var errs field.ErrorList
	require := func(keys ...string) {
		for _, key := range keys {
			if !has(key) {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
	}
	switch secret.Type {
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case corev1.SecretTypeDockercfg:
		require(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		require(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeSSHAuth:
		require(corev1.SSHAuthPrivateKey)
	case corev1.SecretTypeBasicAuth:
		if !has(corev1.BasicAuthUsernameKey) && !has(corev1.BasicAuthPasswordKey) {
			require(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeServiceAccountToken:
		if secret.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	}
	return errs
}

func validateConfigMap(obj, old object, _ string) field.ErrorList {
	configMap, data, binary := obj.(*corev1.ConfigMap), field.NewPath("data"), field.NewPath("binaryData")
	var errs field.ErrorList
	if old != nil && isTrue(old.(*corev1.ConfigMap).Immutable) {
		before := old.(*corev1.ConfigMap)
		errs = append(errs, validateStaysImmutable(configMap.Immutable)...)
		errs = append(errs, validateUnchanged(configMap.Data, before.Data, data)...)
		errs = append(errs, validateUnchanged(configMap.BinaryData, before.BinaryData, binary)...)
	}
	size := 0
	for key, value := range configMap.Data {
		errs = append(errs, validateDataKey(key, data)...)
		if _, ok := configMap.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(data.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range configMap.BinaryData {
		errs = append(errs, validateDataKey(key, binary)...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

func isTrue(b *bool) bool { return b != nil && *b }

func validateDataKey(key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Key(key), key, msg))
	}
	return errs
}

const immutableMessage = "field is immutable when `immutable` is set"

func validateStaysImmutable(now *bool) field.ErrorList {
	if isTrue(now) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("immutable"), immutableMessage)}
}

// validateUnchanged treats an empty map and a missing one as equal, because the encodings do.
func validateUnchanged[V any](now, before map[string]V, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, immutableMessage)}
}
