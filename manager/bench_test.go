// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
)

// noStore takes references and does nothing, so that only the manager counts.
type noStore struct{}

func (noStore) AddReference(string, string, types.UID)    {}
func (noStore) DeleteReference(string, string, types.UID) {}
func (noStore) Get(context.Context, string, string) (*corev1.Secret, error) {
	return nil, context.Canceled
}

func BenchmarkRegisterUnregister20(b *testing.B) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("secret-", i))
	}
	pod := podOf("1", names...)
	m := manager.New[*corev1.Secret](noStore{}, manager.PodSecrets)
	b.ReportAllocs()
	for b.Loop() {
		m.RegisterPod(pod)
		m.UnregisterPod(pod)
	}
}
