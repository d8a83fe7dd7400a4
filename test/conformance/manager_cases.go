// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/reflector"
)

func managerCases() []testCase {
	return []testCase{
		{"pods", "what registered pods name can be had, and nothing else", managerPods},
		{"shared", "an object that several pods name goes with the last of them", managerShared},
		{"re-registration", "a pod that changes keeps what it names before and after, without a gap", managerReregister},
		{"other-owners", "owners that are no pods declare what they need", managerOwners},
		{"churn", "pods that come and go leave nothing behind", managerChurn},
		{"shared-gate", "managers that share a gate open no more streams at a time than it lets them", managerGate},
	}
}

func (s *suite) manager() *manager.Manager[*corev1.Secret] {
	m, err := manager.NewSecrets(s.client, s.options())
	if err != nil {
		s.Fatal(err)
	}
	s.run(m)
	return m
}

// pod returns a pod that mounts those Secrets.
func (s *suite) pod(uid types.UID, secrets ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pod-" + string(uid), UID: uid}}
	for _, name := range secrets {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name:         name,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}},
		})
	}
	return pod
}

type secretManager = *manager.Manager[*corev1.Secret]

func (s *suite) wantObject(m secretManager, name, value string) {
	s.Helper()
	if secret, err := m.Get(s.ctx, s.namespace, name); err != nil || valueOf(secret) != value {
		s.Errorf("Get %s: got %q, %v, want %q", name, valueOf(secret), err, value)
	}
}

func (s *suite) wantUnknown(m secretManager, name string) {
	s.Helper()
	if _, err := m.Get(s.ctx, s.namespace, name); !errors.Is(err, objectcache.ErrNotRegistered) {
		s.Errorf("Get %s: got %v, want ErrNotRegistered", name, err)
	}
}

func managerPods(s *suite) {
	m := s.manager()
	s.create("a", "1")
	s.create("b", "1")
	m.RegisterPod(s.pod("1", "a", "missing"))
	s.wantObject(m, "a", "1")
	s.wantUnknown(m, "b")
	if _, err := m.Get(s.ctx, s.namespace, "missing"); !apierrors.IsNotFound(err) {
		s.Errorf("missing: got %v, want NotFound", err)
	}
	m.UnregisterPod(s.pod("1"))
	s.wantUnknown(m, "a")
	s.streams("after the pod", 0)
}

func managerShared(s *suite) {
	m := s.manager()
	s.create("a", "1")
	m.RegisterPod(s.pod("1", "a"))
	m.RegisterPod(s.pod("2", "a"))
	m.UnregisterPod(s.pod("1"))
	s.wantObject(m, "a", "1")
	s.streams("one pod left", 1)
	m.UnregisterPod(s.pod("2"))
	s.streams("no pod left", 0)
}

func managerReregister(s *suite) {
	m := s.manager()
	for _, name := range []string{"a", "b", "c"} {
		s.create(name, name)
	}
	m.RegisterPod(s.pod("1", "a", "b"))
	s.wantObject(m, "b", "b")
	before, err := m.Get(s.ctx, s.namespace, "b")
	if err != nil {
		s.Fatal(err)
	}
	m.RegisterPod(s.pod("1", "b", "c"))
	if after, err := m.Get(s.ctx, s.namespace, "b"); err != nil || after != before {
		s.Errorf("b: got another object (%v), want the one held before: it was let go for a moment", err)
	}
	s.wantObject(m, "c", "c")
	s.wantUnknown(m, "a")
	s.streams("b and c", 2)
}

func managerOwners(s *suite) {
	m := s.manager()
	s.create("a", "1")
	gateway := manager.Owner{Kind: "Gateway", Namespace: s.namespace, Name: "gateway", UID: "gw"}
	m.SetReferences(gateway, s.key("a"))
	for change, owners := range m.Changes(s.ctx) {
		if len(owners) != 1 || owners[0] != gateway || valueOf(change.Object) != "1" {
			s.Errorf("change: got %q for %v, want 1 for the gateway", valueOf(change.Object), owners)
		}
		break
	}
	m.SetReferences(gateway)
	s.wantUnknown(m, "a")
	s.streams("after the gateway", 0)
}

func managerChurn(s *suite) {
	m := s.manager()
	for i := range 5 {
		s.create(fmt.Sprint("s-", i), fmt.Sprint(i))
	}
	for round := range 20 {
		for i := range 5 {
			uid := types.UID(fmt.Sprint(round, "-", i))
			m.RegisterPod(s.pod(uid, fmt.Sprint("s-", i), fmt.Sprint("s-", (i+1)%5)))
		}
		s.wantObject(m, "s-0", "0")
		for i := range 5 {
			m.UnregisterPod(s.pod(types.UID(fmt.Sprint(round, "-", i))))
		}
	}
	s.streams("after all pods", 0)
}

func managerGate(s *suite) {
	const count, limit = 20, 4
	options, reads := s.options(), newReads(limit)
	options.Gate = reflector.NewGate(reflector.GateOptions{Opens: limit})
	client := s.connect(reads.of(s.Config))
	secrets, err := manager.NewSecrets(client, options)
	if err != nil {
		s.Fatal(err)
	}
	configMaps, err := manager.NewConfigMaps(client, options)
	if err != nil {
		s.Fatal(err)
	}
	stopSecrets, stopConfigMaps := s.run(secrets), s.run(configMaps)
	var keys []types.NamespacedName
	for i := range count {
		keys = append(keys, s.key(fmt.Sprint("of-both-", i)))
		s.create(keys[i].Name, "1")
	}
	gateway := manager.Owner{Kind: "Gateway", Namespace: s.namespace, Name: "gateway", UID: "gw"}
	secrets.SetReferences(gateway, keys...)
	configMaps.SetReferences(gateway, keys...)
	for _, key := range keys {
		s.wantObject(secrets, key.Name, "1")
		if _, err := configMaps.Get(s.ctx, key.Namespace, key.Name); !apierrors.IsNotFound(err) {
			s.Errorf("ConfigMap %s: got %v, want NotFound", key.Name, err)
		}
	}
	stopSecrets()
	stopConfigMaps()
	if got := reads.atMost(); got != limit {
		s.Errorf("reads at a time: got %d, want the %d that the gate lets through", got, limit)
	}
	if got := options.Gate.Status(); got != (reflector.GateStatus{}) {
		s.Errorf("gate: got %+v, want one that nobody uses", got)
	}
}
