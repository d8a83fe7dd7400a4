// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/test/canary"
)

// Issue 13: a Secret has a String method, so that fmt and encoders printed the object of
// a State. They print its version only.
func TestIssue13_StatePrintsNoObjectData(t *testing.T) {
	var canaries canary.Canaries
	object := &corev1.Secret{Data: map[string][]byte{"password": []byte(canaries.New())}}
	object.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: canaries.New()}
	state := states.State[*corev1.Secret]{Object: object, Exists: true, ResourceVersion: "5", Epoch: 1}
	for name, value := range map[string]any{
		"state": state, "pointer": &state, "in a slice": []states.State[*corev1.Secret]{state}, "in a struct": struct{ State any }{state},
	} {
		canaries.Check(t, name, canary.Print(value))
	}
	for want, state := range map[string]states.State[*metav1.PartialObjectMetadata]{
		`exists, resource version "5", epoch 1`: {Exists: true, Synced: true, ResourceVersion: "5", Epoch: 1},
		`absent, resource version "7", epoch 0`: {Synced: true, ResourceVersion: "7"},
		`unknown, resource version "", epoch 0`: {},
	} {
		if got := state.String(); got != want {
			t.Errorf("String: got %s, want %s", got, want)
		}
	}
}
