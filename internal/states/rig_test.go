// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/states"
)

var key = types.NamespacedName{Namespace: "shop", Name: "tls"}

type (
	secretState = states.State[*corev1.Secret]
	secretOrder = states.Order[*corev1.Secret]
)

// secret returns the object with the key at a version, with the UID "one" or the one given.
func secret(version string, uid ...types.UID) *corev1.Secret {
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: "one", ResourceVersion: version,
	}}
	if len(uid) > 0 {
		object.UID = uid[0]
	}
	return object
}

// secretWith returns the secret with a value.
func secretWith(version, value string) *corev1.Secret {
	object := secret(version)
	object.Data = map[string][]byte{"value": []byte(value)}
	return object
}

// exists returns the state that a read of the secret shows.
func exists(version, value string) secretState {
	return secretState{Object: secretWith(version, value), Exists: true, Synced: true, ResourceVersion: version}
}

// absent returns the state that a read without the secret shows.
func absent(version string) secretState { return secretState{Synced: true, ResourceVersion: version} }
