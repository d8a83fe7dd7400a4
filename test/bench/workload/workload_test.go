// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
)

func TestPodsReferenceEverySecretOnce(t *testing.T) {
	for name, test := range map[string]struct{ count, perPod, pods int }{
		"even":   {40, 20, 2},
		"uneven": {45, 20, 3},
		"single": {3, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			set := NewSet("test", test.count)
			pods := set.Pods(test.perPod)
			if len(pods) != test.pods {
				t.Errorf("pods: got %d, want %d", len(pods), test.pods)
			}
			seen, owners := map[string]int{}, map[string]bool{}
			for _, pod := range pods {
				owners[string(pod.UID)] = true
				manager.VisitPodSecretNames(pod, func(name string) { seen[name]++ })
			}
			for _, name := range set.Names() {
				if seen[name] != 1 {
					t.Errorf("references to %s: got %d, want 1", name, seen[name])
				}
			}
			if len(seen) != test.count || len(owners) != test.pods {
				t.Errorf("got %d secrets of %d owners, want %d of %d", len(seen), len(owners), test.count, test.pods)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	set := NewSet("test", 9)
	for _, edition := range []int64{0, 1, 1 << 40} {
		secret := set.Secret(Name(3), edition)
		if got := len(ValueOf(secret)); got != SecretBytes {
			t.Errorf("size of edition %d: got %d, want %d", edition, got, SecretBytes)
		}
		if err := set.Check(secret, Name(3)); err != nil {
			t.Errorf("check of edition %d: got %v, want nil", edition, err)
		}
	}
	other := set.Secret(Name(3), 0)
	other.Data = set.Secret(Name(4), 0).Data
	for name, secret := range map[string]*corev1.Secret{
		"nil":               nil,
		"another":           set.Secret(Name(4), 0),
		"another namespace": NewSet("test", 10).Secret(Name(3), 0),
		"without a value":   {ObjectMeta: set.Secret(Name(3), 0).ObjectMeta},
		"another's value":   other,
	} {
		t.Run(name, func(t *testing.T) {
			err := set.Check(secret, Name(3))
			if err == nil {
				t.Fatal("check: got nil, want an error")
			}
			if strings.Contains(err.Error(), "....") {
				t.Errorf("error: got %q, which tells the value", err)
			}
		})
	}
}
