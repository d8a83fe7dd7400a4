// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"sigs.k8s.io/randfill"

	"github.com/refwatch/refwatch/manager"
)

// A pod is registered with the names that kubelet visits: in a pod with every field set, and in random ones.
func TestVisitsWhatKubeletVisits(t *testing.T) {
	for seed := range int64(100) {
		filler := randfill.NewWithSeed(seed).NilChance(0.2).NumElements(1, 2).Funcs(func(*resource.Quantity, randfill.Continue) {})
		if seed == 0 {
			filler.NilChance(0)
		}
		var pod corev1.Pod
		filler.Fill(&pod)
		pod.Spec.Volumes = withOneSource(pod.Spec.Volumes)
		for name, visits := range map[string]struct {
			ours    manager.VisitPodFunc
			kubelet func(*corev1.Pod, podutil.Visitor) bool
		}{
			"Secrets":    {manager.VisitPodSecretNames, podutil.VisitPodSecretNames},
			"ConfigMaps": {manager.VisitPodConfigMapNames, podutil.VisitPodConfigmapNames},
		} {
			got, want := sets.New[string](), sets.New[string]()
			visits.ours(&pod, func(name string) { got.Insert(name) })
			visits.kubelet(&pod, func(name string) bool { want.Insert(name); return true })
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 && seed == 0 {
				t.Errorf("%s of pod %d (-kubelet +refwatch), %d names:\n%s", name, seed, len(want), diff)
			}
		}
	}
}

// withOneSource returns a volume for each source of the volumes. The server admits one source in a volume, and kubelet
// visits only one.
func withOneSource(volumes []corev1.Volume) (single []corev1.Volume) {
	for i := range volumes {
		sources := reflect.ValueOf(&volumes[i].VolumeSource).Elem()
		for field := range sources.NumField() {
			var volume corev1.Volume
			reflect.ValueOf(&volume.VolumeSource).Elem().Field(field).Set(sources.Field(field))
			single = append(single, volume)
		}
	}
	return single
}
