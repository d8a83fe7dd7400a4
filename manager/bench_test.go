// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
)

func BenchmarkRegisterUnregister20(b *testing.B)   { registerUnregister(b, numbered(20, 1)) }
func BenchmarkRegisterUnregister2000(b *testing.B) { registerUnregister(b, numbered(2000, 1)) }

// A container takes a hundred variables from five Secrets.
func BenchmarkRegisterUnregister100Of5(b *testing.B) { registerUnregister(b, numbered(100, 20)) }

func registerUnregister(b *testing.B, names []string) {
	pod := podOf("1", names...)
	m := newManager(b, noStore{}, manager.VisitPodSecretNames)
	b.ReportAllocs()
	for b.Loop() {
		m.RegisterPod(pod)
		m.UnregisterPod(pod)
	}
}

// A node agent mostly registers pods that have not changed.
func BenchmarkRegisterAgain20(b *testing.B) {
	pod := podOf("1", numbered(20, 1)...)
	m := newManager(b, noStore{}, manager.VisitPodSecretNames)
	m.RegisterPod(pod)
	b.ReportAllocs()
	for b.Loop() {
		m.RegisterPod(pod)
	}
}

func BenchmarkRegisterUnregister20Parallel(b *testing.B) {
	m := newManager(b, noStore{}, manager.VisitPodSecretNames)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		pod := podOf(types.UID(fmt.Sprintf("%p", pb)), numbered(20, 1)...)
		for pb.Next() {
			m.RegisterPod(pod)
			m.UnregisterPod(pod)
		}
	})
}
