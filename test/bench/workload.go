// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// secretBytes is the size of a Secret's only value, which is under dataKey, if the set has no size.
	secretBytes = 100
	dataKey     = "value"
	// secretsPerPod is how many Secrets a pod references. No two pods reference the same one.
	secretsPerPod = 20
)

// set is a number of Secrets, alone in a namespace.
type set struct {
	Name  string
	Count int
	Bytes int // of a value, 0 for secretBytes
}

func (s set) namespace() string { return strings.ToLower(fmt.Sprintf("bench-%s-%d", s.Name, s.Count)) }

func (s set) size() int { return cmp.Or(s.Bytes, secretBytes) }

// nameOf returns the name of the i-th Secret.
func nameOf(i int) string { return fmt.Sprintf("secret-%05d", i) }

// indexOf returns the i of nameOf.
func indexOf(name string) (i int) {
	_, _ = fmt.Sscanf(name, "secret-%d", &i)
	return i
}

// newEdition returns an edition that no Secret has had yet. The first edition of each Secret is 0.
func newEdition() int64 { return time.Now().UnixNano() }

// secret returns an edition of the i-th Secret.
func (s set) secret(i int, edition int64) *corev1.Secret {
	value := fmt.Appendf(nil, "%s %d ", nameOf(i), edition)
	value = append(value, filler(s.size()-len(value))...)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: nameOf(i)},
		Data:       map[string][]byte{dataKey: value},
	}
}

// filler returns the rest of a value. A large one does not shrink in compression, as the keys and certificates of real
// Secrets do not.
func filler(size int) []byte {
	if size <= secretBytes {
		return bytes.Repeat([]byte{'.'}, size)
	}
	random := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // never fails
	return random
}

// editionOf returns the edition of a Secret, or -1.
func editionOf(secret *corev1.Secret) int64 {
	var name string
	edition := int64(-1)
	if _, err := fmt.Fscan(bytes.NewReader(secret.Data[dataKey]), &name, &edition); err != nil {
		return -1
	}
	return edition
}

// check returns an error if a Secret is not the i-th, in any edition. The error does not contain its value.
func (s set) check(secret *corev1.Secret, i int) error {
	if secret == nil || secret.Namespace != s.namespace() || secret.Name != nameOf(i) ||
		len(secret.Data[dataKey]) != s.size() || !bytes.HasPrefix(secret.Data[dataKey], []byte(nameOf(i)+" ")) {
		return fmt.Errorf("%s: got another Secret", nameOf(i))
	}
	return nil
}

// pods returns pods that together reference all Secrets of the set, perPod each.
func (s set) pods(perPod int) []*corev1.Pod {
	var pods []*corev1.Pod
	for first := 0; first < s.Count; first += perPod {
		name := fmt.Sprint("pod-", len(pods))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace(), Name: name, UID: types.UID(s.namespace() + "/" + name),
		}}
		for i := first; i < min(first+perPod, s.Count); i++ {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: nameOf(i), VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: nameOf(i)},
			}})
		}
		pods = append(pods, pod)
	}
	return pods
}
