// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestValidateSecret(t *testing.T) {
	for name, test := range map[string]struct {
		secret corev1.Secret
		want   []string // fields with errors
	}{
		"empty":            {corev1.Secret{}, nil},
		"good key":         {corev1.Secret{Data: map[string][]byte{"a.b-c_D": nil}}, nil},
		"bad key":          {corev1.Secret{Data: map[string][]byte{"a b": nil}}, []string{"data[a b]"}},
		"dots":             {corev1.Secret{Data: map[string][]byte{"..": nil}}, []string{"data[..]"}},
		"1 MiB":            {corev1.Secret{Data: map[string][]byte{"a": make([]byte, 1<<20)}}, nil},
		"over 1 MiB":       {corev1.Secret{Data: map[string][]byte{"a": make([]byte, 1<<20), "b": {1}}}, []string{"data"}},
		"tls":              {corev1.Secret{Type: corev1.SecretTypeTLS}, []string{"data[tls.crt]", "data[tls.key]"}},
		"docker config":    {corev1.Secret{Type: corev1.SecretTypeDockercfg}, []string{"data[.dockercfg]"}},
		"docker json":      {corev1.Secret{Type: corev1.SecretTypeDockerConfigJson}, []string{"data[.dockerconfigjson]"}},
		"ssh":              {corev1.Secret{Type: corev1.SecretTypeSSHAuth}, []string{"data[ssh-privatekey]"}},
		"basic auth":       {corev1.Secret{Type: corev1.SecretTypeBasicAuth}, []string{"data[username]", "data[password]"}},
		"basic auth, half": {corev1.Secret{Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"password": nil}}, nil},
		"account token":    {corev1.Secret{Type: corev1.SecretTypeServiceAccountToken}, []string{"metadata.annotations[kubernetes.io/service-account.name]"}},
		"unknown type":     {corev1.Secret{Type: "example.com/x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range validateSecret(&test.secret, nil, "") {
				got = append(got, err.Field)
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("got errors in %v, want %v", got, test.want)
			}
		})
	}
}

func TestValidateConfigMap(t *testing.T) {
	for name, test := range map[string]struct {
		configMap corev1.ConfigMap
		want      []string
	}{
		"empty":      {corev1.ConfigMap{}, nil},
		"bad keys":   {corev1.ConfigMap{Data: map[string]string{"/": ""}, BinaryData: map[string][]byte{"?": nil}}, []string{"data[/]", "binaryData[?]"}},
		"in both":    {corev1.ConfigMap{Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"a": nil}}, []string{"data[a]"}},
		"both large": {corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 1<<20)}, BinaryData: map[string][]byte{"b": {1}}}, []string{"[]"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range validateConfigMap(&test.configMap, nil, "") {
				got = append(got, err.Field)
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("got errors in %v, want %v", got, test.want)
			}
		})
	}
}
