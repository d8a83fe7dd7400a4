// SPDX-License-Identifier: Apache-2.0

// Package workload says which secrets there are and which pods reference them. The driver makes the secrets, a
// worker registers the pods; both ask here, so that neither has to tell the other.
package workload

import (
	"bytes"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// SecretBytes is the size of a secret's only value.
	SecretBytes = 100
	// SecretsPerPod is how many secrets each pod references. No two pods reference the same.
	SecretsPerPod = 20

	dataKey = "value"
)

// Set is a namespace with nothing in it but so many secrets. A set has a namespace of its own because a cache
// of a whole kind would hold what belongs to others, too.
type Set struct {
	Namespace string
	Count     int
}

// NewSet returns the set of that many secrets for a purpose.
func NewSet(purpose string, count int) Set {
	return Set{Namespace: fmt.Sprintf("bench-%s-%d", purpose, count), Count: count}
}

// Name is that of the i-th secret.
func Name(i int) string { return fmt.Sprintf("secret-%05d", i) }

// Value is what a secret of that name holds in an edition of it. The first one is edition 0.
func Value(name string, edition int64) []byte {
	value := append(make([]byte, 0, SecretBytes), name+" "+strconv.FormatInt(edition, 10)+" "...)
	return append(value, bytes.Repeat([]byte{'.'}, SecretBytes-len(value))...)
}

// ValueOf is what a secret holds.
func ValueOf(secret *corev1.Secret) []byte { return secret.Data[dataKey] }

// Secret is an edition of a secret.
func (s Set) Secret(name string, edition int64) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Data:       map[string][]byte{dataKey: Value(name, edition)},
	}
}

// Check returns an error unless the secret is that one, in whatever edition. The error does not tell its value.
func (s Set) Check(secret *corev1.Secret, name string) error {
	switch {
	case secret == nil:
		return fmt.Errorf("%s/%s: got no secret and no error", s.Namespace, name)
	case secret.Namespace != s.Namespace || secret.Name != name:
		return fmt.Errorf("%s/%s: got secret %s/%s", s.Namespace, name, secret.Namespace, secret.Name)
	case len(ValueOf(secret)) != SecretBytes || !bytes.HasPrefix(ValueOf(secret), []byte(name+" ")):
		return fmt.Errorf("%s/%s: got a value that is not its own", s.Namespace, name)
	}
	return nil
}

// Names are those of all secrets of the set.
func (s Set) Names() []string {
	names := make([]string, s.Count)
	for i := range names {
		names[i] = Name(i)
	}
	return names
}

// Pods reference all secrets of the set among them, perPod each.
func (s Set) Pods(perPod int) []*corev1.Pod {
	var pods []*corev1.Pod
	for first := 0; first < s.Count; first += perPod {
		name := fmt.Sprint("pod-", len(pods))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name, UID: types.UID(s.Namespace + "/" + name),
		}}
		for i := first; i < min(first+perPod, s.Count); i++ {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: Name(i), VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: Name(i)},
			}})
		}
		pods = append(pods, pod)
	}
	return pods
}
