// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/clients"
)

// The group of a kind counts if both kinds have one.
func TestOwnerIsKind(t *testing.T) {
	const gateway, istio = "Gateway.gateway.networking.k8s.io", "Gateway.networking.istio.io"
	for _, test := range []struct {
		owner, kind string
		want        bool
	}{
		{"Gateway", "Gateway", true},
		{gateway, gateway, true},
		{gateway, "Gateway", true},
		{"Gateway", gateway, true},
		{gateway, istio, false},
		{"Gateway", "gateway", false},
		{"GatewayClass", "Gateway", false},
		{"", "Gateway", false},
		{"Gateway", "", false},
		{"", "", true},
	} {
		if got := (manager.Owner{Kind: test.owner}).IsKind(test.kind); got != test.want {
			t.Errorf("kind %q is %q: got %v, want %v", test.owner, test.kind, got, test.want)
		}
	}
}

// The ID of an owner is what the status of its objects has.
func TestOwnerID(t *testing.T) {
	for want, owner := range map[types.UID]manager.Owner{
		"1":                   {Kind: "Ingress", Namespace: "default", Name: "web", UID: "1"},
		"2":                   {UID: "2"},
		"Ingress/default/web": {Kind: "Ingress", Namespace: "default", Name: "web"},
		"default/web":         {Namespace: "default", Name: "web"},
	} {
		m, err := manager.NewSecrets(clients.Nowhere(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m.SetReferences(owner, key("tls"))
		status, _ := m.Status("default", "tls")
		if got := owner.ID(); got != want || !slices.Equal(status.Owners, []types.UID{got}) {
			t.Errorf("%+v: got ID %q and owners %q in the status, want %q in both", owner, got, status.Owners, want)
		}
	}
}

// The rules of identity are those that Owner documents. want lists the references
// after the calls.
func TestOwnerIdentity(t *testing.T) {
	type m = *manager.Manager[*corev1.Secret]
	owner := func(kind, name string, uid types.UID) manager.Owner {
		return manager.Owner{Kind: kind, Namespace: "default", Name: name, UID: uid}
	}
	web := owner("Ingress", "web", "1")
	byName, byUID := owner("Ingress", "web", ""), manager.Owner{UID: "1"}
	set := func(o manager.Owner, names ...string) func(m) {
		return func(m m) {
			var keys []types.NamespacedName
			for _, name := range names {
				keys = append(keys, key(name))
			}
			m.SetReferences(o, keys...)
		}
	}
	pod := func(uid types.UID, secrets ...string) *corev1.Pod {
		p := podOf(uid, secrets...)
		p.Name = "web"
		return p
	}
	tests := map[string]referencesTest{
		"removed by name":                       {[]func(m){set(web, "a"), set(byName)}, ""},
		"removed by UID":                        {[]func(m){set(web, "a"), set(byUID)}, ""},
		"removed by both":                       {[]func(m){set(web, "a"), set(web)}, ""},
		"name only, removed by both":            {[]func(m){set(byName, "a"), set(web)}, ""},
		"UID only, removed by both":             {[]func(m){set(byUID, "a"), set(web)}, ""},
		"UID first, removed by name":            {[]func(m){set(byUID, "a"), set(web, "a"), set(byName)}, ""},
		"name first, removed by UID":            {[]func(m){set(byName, "a"), set(web, "a", "b"), set(byUID)}, ""},
		"name first, then its UID":              {[]func(m){set(byName, "a", "b"), set(web, "b")}, "default/b 1"},
		"UID, then its name alone":              {[]func(m){set(web, "a"), set(byName, "b")}, "default/b 1"},
		"UID alone keeps the name":              {[]func(m){set(web, "a"), set(byUID, "b"), set(byName)}, ""},
		"renamed, removed by the new name":      {[]func(m){set(web, "a"), set(owner("Ingress", "new", "1"), "a"), set(owner("Ingress", "new", ""))}, ""},
		"renamed, the old name has no owner":    {[]func(m){set(web, "a"), set(owner("Ingress", "new", "1"), "a"), set(byName)}, "default/a 1"},
		"another kind of the name":              {[]func(m){set(byName, "a"), set(owner("Gateway", "web", ""), "b")}, "default/a Ingress/default/web, default/b Gateway/default/web"},
		"another kind of the name, with UIDs":   {[]func(m){set(web, "a"), set(owner("Gateway", "web", "2"), "b"), set(byName)}, "default/b 2"},
		"another namespace":                     {[]func(m){set(web, "a"), set(manager.Owner{Kind: "Ingress", Namespace: "other", Name: "web"})}, "default/a 1"},
		"recreated":                             {[]func(m){set(web, "a"), set(owner("Ingress", "web", "2"), "b")}, "default/b 2"},
		"recreated, removed by name":            {[]func(m){set(web, "a"), set(owner("Ingress", "web", "2"), "b"), set(byName)}, ""},
		"recreated, the predecessor is removed": {[]func(m){set(web, "a"), set(owner("Ingress", "web", "2"), "b"), set(web)}, "default/b 2"},
		"an unknown UID is removed":             {[]func(m){set(web, "a"), set(owner("Ingress", "web", "0"))}, "default/a 1"},
		"no kind, two UIDs":                     {[]func(m){set(owner("", "web", "1"), "a"), set(owner("", "web", "2"), "b")}, "default/a 1, default/b 2"},
		"no kind, two UIDs, by UID":             {[]func(m){set(owner("", "web", "1"), "a"), set(owner("", "web", "2"), "b"), set(byUID)}, "default/b 2"},
		"no kind, two UIDs, by name":            {[]func(m){set(owner("", "web", "1"), "a"), set(owner("", "web", "2"), "b"), set(owner("", "web", ""))}, ""},
		"no kind, two UIDs, declared by name":   {[]func(m){set(owner("", "web", "1"), "a"), set(owner("", "web", "2"), "b"), set(owner("", "web", ""), "c")}, "default/c 2"},
		"no kind, removed by name":              {[]func(m){set(owner("", "web", "1"), "a"), set(owner("", "web", ""))}, ""},
		"no kind is a kind of its own":          {[]func(m){set(web, "a"), set(owner("", "web", ""))}, "default/a 1"},
		"no kind, then its kind":                {[]func(m){set(owner("", "web", "1"), "a"), set(web, "a"), set(byName)}, ""},
		"pods of one name stay":                 {[]func(m){func(m m) { m.RegisterPod(pod("1", "a")); m.RegisterPod(pod("2", "b")) }}, "default/a 1, default/b 2"},
		"pods of one name, one is removed":      {[]func(m){func(m m) { m.RegisterPod(pod("1", "a")); m.RegisterPod(pod("2", "b")); m.UnregisterPod(pod("1")) }}, "default/b 2"},
		"pods of one name, by name":             {[]func(m){func(m m) { m.RegisterPod(pod("1", "a")); m.RegisterPod(pod("2", "b")) }, set(owner("Pod", "web", ""))}, ""},
		"pods of one name, the newest is removed": {[]func(m){func(m m) {
			m.RegisterPod(pod("1", "a"))
			m.RegisterPod(pod("2", "b"))
			m.UnregisterPod(pod("2"))
		}, set(owner("Pod", "web", ""))}, ""},
		"pods of one name, the middle one is removed": {[]func(m){func(m m) {
			m.RegisterPod(pod("1", "a"))
			m.RegisterPod(pod("2", "b"))
			m.RegisterPod(pod("3", "c"))
			m.UnregisterPod(pod("2"))
		}, set(owner("Pod", "web", ""))}, ""},
		"a pod, by name":                {[]func(m){func(m m) { m.RegisterPod(pod("1", "a")) }, set(owner("Pod", "web", ""))}, ""},
		"a pod that gets its UID":       {[]func(m){func(m m) { m.RegisterPod(pod("", "a")); m.RegisterPod(pod("1", "a")) }}, "default/a 1"},
		"a pod that gets its UID, gone": {[]func(m){func(m m) { m.RegisterPod(pod("", "a")); m.UnregisterPod(pod("1")) }}, ""},
		"no identity":                   {[]func(m){set(manager.Owner{}, "a"), set(manager.Owner{Kind: "Ingress", Namespace: "default"}, "a")}, ""},
		"no identity, no keys":          {[]func(m){set(web, "a"), set(manager.Owner{}), set(owner("Ingress", "", ""))}, "default/a 1"},
	}
	checkReferences(t, tests)
}

// A successor's references are added before its predecessor's are taken back:
// what both name stays in memory.
func TestRecreatedOwnerAddsFirst(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, nil)
	web := manager.Owner{Kind: "Ingress", Namespace: "default", Name: "web", UID: "1"}
	m.SetReferences(web, key("a"))
	web.UID = "2"
	m.SetReferences(web, key("a"))
	if got, want := strings.Join(store.calls, " "), "+default/a 1 +default/a 2 -default/a 1"; got != want {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

// logged returns the lines in a logger's buffer.
func logged(logger klog.Logger) (lines []string) {
	for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		line := entry.Message
		if entry.Err != nil {
			line += ": " + entry.Err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}

// Calls that change nothing are logged to Run's logger. None panics.
func TestIgnoredCallsAreLogged(t *testing.T) {
	tests := map[string]struct {
		visitPod manager.VisitPodFunc
		call     func(*manager.Manager[*corev1.Secret])
		want     string
		lines    int
	}{
		"an owner without identity": {manager.VisitPodSecretNames, func(m *manager.Manager[*corev1.Secret]) { m.SetReferences(manager.Owner{}, key("a")) }, "neither UID nor name", 2},
		"a pod without identity":    {manager.VisitPodSecretNames, func(m *manager.Manager[*corev1.Secret]) { m.RegisterPod(&corev1.Pod{}) }, "neither UID nor name", 2},
		"registering nil":           {manager.VisitPodSecretNames, func(m *manager.Manager[*corev1.Secret]) { m.RegisterPod(nil) }, "the pod is nil", 2},
		"unregistering nil":         {manager.VisitPodSecretNames, func(m *manager.Manager[*corev1.Secret]) { m.UnregisterPod(nil) }, "the pod is nil", 2},
		"removing an unknown owner": {manager.VisitPodSecretNames, func(m *manager.Manager[*corev1.Secret]) { m.SetReferences(manager.Owner{Name: "web"}) }, "Owner to remove is not registered", 2},
		"removing an owner": {manager.VisitPodSecretNames, func(m *manager.Manager[*corev1.Secret]) {
			m.SetReferences(manager.Owner{Name: "web", UID: "1"}, key("a"))
			m.SetReferences(manager.Owner{Name: "web"})
			m.SetReferences(manager.Owner{Name: "web"})
		}, "Owner to remove is not registered", 2}, // at the second removal
		"changes without context": {manager.VisitPodSecretNames, func(m *manager.Manager[*corev1.Secret]) {
			var none context.Context
			for range m.Changes(none) {
				panic("a change")
			}
		}, "context is nil", 2},
		"pods without a VisitPodFunc, once": {nil, func(m *manager.Manager[*corev1.Secret]) { m.RegisterPod(podOf("1", "a")) }, "made without a VisitPodFunc", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				m := newManager(t, noStore{}, test.visitPod)
				stop := run(klog.NewContext(t.Context(), logger), t, m)
				synctest.Wait()
				test.call(m)
				test.call(m)
				lines := logged(logger)
				if len(lines) != test.lines || !strings.Contains(lines[0], test.want) {
					t.Errorf("lines: got %q, want %d with %q", lines, test.lines, test.want)
				}
				stop()
			})
		})
	}
}

// VisitPodSecretNames and VisitPodConfigMapNames accept nil arguments.
func TestVisitPodWithNil(t *testing.T) {
	for name, visitPod := range map[string]manager.VisitPodFunc{"Secrets": manager.VisitPodSecretNames, "ConfigMaps": manager.VisitPodConfigMapNames} {
		t.Run(name, func(t *testing.T) {
			visitPod(podOf("1", "a"), nil)
			visitPod(nil, func(name string) { t.Errorf("got %q, want nothing", name) })
		})
	}
}
