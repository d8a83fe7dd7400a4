// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

func managerCases() []testCase {
	return []testCase{
		{"pods", "Get returns the objects that registered pods name, and no others", managerPods, watches | ttl},
		{"shared", "an object that several pods name is kept until the last of them is unregistered", managerShared, watches},
		{"re-registration", "when a pod is registered again, the objects that it still names stay cached", managerReregister, watches},
		{"other-owners", "an owner that is not a pod sets its references", managerOwners, watches},
		{"wait-for-sync", "WaitForSync returns once Get has an answer for all objects, and names those without one", managerWaitForSync, watches},
		{"churn", "no stream is left after many pods were registered and unregistered", managerChurn, watches | ttl},
		{"shared-gate", "managers that share a Gate together stay within its limit of requests", managerGate, watches},
	}
}

func (s *suite) manager() *manager.Manager[*corev1.Secret] {
	m, err := manager.NewSecrets(s.client, s.storeOptions())
	if err != nil {
		s.Fatal(err)
	}
	s.start(m)
	return m
}

// pod returns a pod that mounts the Secrets.
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

func managerPods(s *suite) {
	m := s.manager()
	s.create("a", "1")
	s.create("b", "1")
	m.RegisterPod(s.pod("1", "a", "missing"))
	s.wantObject(m, "a", "1")
	s.wantNotRegistered(m, "b")
	s.wantNotFound(m, "missing")
	m.UnregisterPod(s.pod("1"))
	s.wantNotRegistered(m, "a")
	s.wantStreams("after UnregisterPod", 0)
}

func managerShared(s *suite) {
	m := s.manager()
	s.create("a", "1")
	m.RegisterPod(s.pod("1", "a"))
	m.RegisterPod(s.pod("2", "a"))
	m.UnregisterPod(s.pod("1"))
	s.wantObject(m, "a", "1")
	s.wantStreams("one pod left", 1)
	m.UnregisterPod(s.pod("2"))
	s.wantStreams("no pod left", 0)
}

func managerReregister(s *suite) {
	m := s.manager()
	for _, name := range []string{"a", "b", "c"} {
		s.create(name, name)
	}
	m.RegisterPod(s.pod("1", "a", "b"))
	before := s.wantObject(m, "b", "b")
	m.RegisterPod(s.pod("1", "b", "c"))
	if after := s.wantObject(m, "b", "b"); after != before {
		s.Error("b: got a new object, want the cached one: its stream was ended and started again")
	}
	s.wantObject(m, "c", "c")
	s.wantNotRegistered(m, "a")
	s.wantStreams("b and c", 2)
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
	s.wantNotRegistered(m, "a")
	s.wantStreams("after SetReferences without keys", 0)
}

func managerWaitForSync(s *suite) {
	m := s.manager()
	gateway := manager.Owner{Kind: "Gateway", Namespace: "elsewhere", Name: "gateway", UID: "gw"}
	var keys []types.NamespacedName
	for i := range 20 {
		keys = append(keys, s.key(fmt.Sprint("object-", i)))
		if i%2 == 0 {
			s.create(keys[i].Name, "1")
		}
	}
	m.SetReferences(gateway, keys...)
	if err := m.WaitForOwner(s.ctx, gateway); err != nil || !m.OwnerHasSynced(gateway) {
		s.Errorf("WaitForOwner: got %v, and synced %v, want nil and true", err, m.OwnerHasSynced(gateway))
	}
	for i, key := range keys {
		if _, err := m.TryGet(key.Namespace, key.Name); (err == nil) != (i%2 == 0) || err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("TryGet %s: got %v, want the object or NotFound", key.Name, err)
		}
	}
	err := m.WaitForSync(s.ctx, append(keys, s.key("other"))...)
	if !errors.Is(err, objectcache.ErrNotRegistered) || m.HasSynced(s.key("other")) {
		s.Errorf("WaitForSync: got %v, want ErrNotRegistered for a key without references", err)
	}
}

// managerChurn has as many rounds as an object may be referenced again without a pause.
func managerChurn(s *suite) {
	const rounds, count = 4, 25
	m := s.manager()
	for i := range count {
		s.create(fmt.Sprint("s-", i), fmt.Sprint(i))
	}
	for round := range rounds {
		for i := range count {
			uid := types.UID(fmt.Sprint(round, "-", i))
			m.RegisterPod(s.pod(uid, fmt.Sprint("s-", i), fmt.Sprint("s-", (i+1)%count)))
		}
		s.wantObject(m, "s-0", "0")
		for i := range count {
			m.UnregisterPod(s.pod(types.UID(fmt.Sprint(round, "-", i))))
		}
	}
	s.wantStreams("all pods unregistered", 0)
}

func managerGate(s *suite) {
	const count, limit = 20, 4
	options, reads := objectcache.WatchOptions{Gate: reflector.NewGate(reflector.GateOptions{Opens: limit})}, newReadCounter(limit)
	client := s.clientFor(reads.wrap(s.Config))
	secrets, err := manager.NewSecrets(client, options)
	if err != nil {
		s.Fatal(err)
	}
	configMaps, err := manager.NewConfigMaps(client, options)
	if err != nil {
		s.Fatal(err)
	}
	stopSecrets, stopConfigMaps := s.start(secrets), s.start(configMaps)
	var keys []types.NamespacedName
	for i := range count {
		keys = append(keys, s.key(fmt.Sprint("object-", i)))
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
	if got := reads.max(); got > limit {
		s.Errorf("reads at a time: got %d, want at most %d, the limit of the Gate", got, limit)
	}
	if got := options.Gate.Status(); got.Opening > 0 || got.Queued > 0 || got.Paused > 0 || got.Cause != nil {
		s.Errorf("Gate: got %+v, want an idle one", got)
	}
}
