// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// requestsOf starts a source of a kind, and returns its queue.
func requestsOf(t *testing.T, secrets *manager.Manager[*corev1.Secret], kind string) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	source, err := controllerruntime.NewSource(secrets, kind)
	if err != nil {
		t.Fatal(err)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		queue.ShutDown()
		synctest.Wait()
	})
	if err := source.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	return queue
}

// logsOf collects the lines of a text in controller-runtime's log until the test ends.
func logsOf(t *testing.T, text string) *events {
	var lines events
	rootLines.Store(new(func(_, args string) {
		if strings.Contains(args, text) {
			_, details, _ := strings.Cut(args, "is called with\" ")
			lines.add("%s", details)
		}
	}))
	t.Cleanup(func() { rootLines.Store(nil) })
	return &lines
}

// A source compares kinds as kinds: a group counts if both have one. If all owners are of other kinds, one line of the
// log says so after a minute, with the kinds.
func TestSourceComparesKinds(t *testing.T) {
	const gateway, istio = "Gateway.gateway.networking.k8s.io", "Gateway.networking.istio.io"
	for name, test := range map[string]struct {
		source, owner string
		matches       bool
	}{
		"without groups":          {"Gateway", "Gateway", true},
		"with the same group":     {gateway, gateway, true},
		"an owner with a group":   {"Gateway", gateway, true},
		"a source with a group":   {gateway, "Gateway", true},
		"groups that differ":      {gateway, istio, false},
		"kinds that differ":       {"Gateway", "Pod", false},
		"a kind that is a prefix": {"Gateway", "GatewayClass.gateway.networking.k8s.io", false},
		"another case":            {"gateway", "Gateway", false},
		"no kind of a source":     {"Pod", "", false},
		"not a kind, but equal":   {"example.com/v1, Kind=Widget", "example.com/v1, Kind=Widget", true},
	} {
		t.Run(name, func(t *testing.T) {
			lines := logsOf(t, "The source enqueues nothing")
			withSecrets(t, func(t *testing.T, r *rig, secrets *manager.Manager[*corev1.Secret]) {
				secrets.SetReferences(manager.Owner{Kind: "Widget", Name: "w"}) // forgets that of the rig
				queue := requestsOf(t, secrets, test.source)
				time.Sleep(time.Hour) // without an owner there is nothing to say
				secrets.SetReferences(manager.Owner{Kind: test.owner, Namespace: namespace, Name: "mine"}, keyOfOne)
				time.Sleep(time.Minute - time.Millisecond)
				lines.want(t, "before a minute")
				time.Sleep(time.Hour)
				want := []string{fmt.Sprintf("%q=%q %q=[%q]", "kind", test.source, "others", test.owner)}
				if test.matches {
					want = nil
				}
				lines.want(t, "after an hour", want...)
				if got := queue.Len() > 0; got != test.matches {
					t.Errorf("got a request: %v, want %v", got, test.matches)
				}
			})
		})
	}
}

// Of a manager for several kinds each source enqueues its own. A source that has had an owner of its kind logs nothing,
// and one that has had none names a few of the other kinds.
func TestSourcesOfOneManager(t *testing.T) {
	lines := logsOf(t, "The source enqueues nothing")
	withSecrets(t, func(t *testing.T, r *rig, secrets *manager.Manager[*corev1.Secret]) {
		queues := map[string]workqueue.TypedRateLimitingInterface[reconcile.Request]{}
		for _, kind := range []string{"Ingress", "Gateway", "Route"} {
			queues[kind] = requestsOf(t, secrets, kind)
		}
		for _, kind := range []string{"Ingress.networking.k8s.io", "Gateway", "A", "B", "C", "D", "E"} {
			for i := range 100 {
				secrets.SetReferences(manager.Owner{Kind: kind, Namespace: namespace, Name: fmt.Sprint(strings.ToLower(kind), i)}, keyOfOne)
			}
		}
		time.Sleep(time.Hour)
		lines.mu.Lock()
		if len(lines.all) != 1 || !strings.HasPrefix(lines.all[0], `"kind"="Route"`) || strings.Count(lines.all[0], `" "`) != 5 {
			t.Errorf("got the lines %q, want one of Route with five kinds", lines.all)
		}
		lines.mu.Unlock()
		for kind, want := range map[string]int{"Ingress": 100, "Gateway": 100, "Route": 0} {
			var got []types.NamespacedName
			for queues[kind].Len() > 0 {
				request, _ := queues[kind].Get()
				got = append(got, request.NamespacedName)
				queues[kind].Done(request)
			}
			foreign := slices.ContainsFunc(got, func(name types.NamespacedName) bool {
				return !strings.HasPrefix(name.Name, strings.ToLower(kind))
			})
			if len(got) != want || foreign {
				t.Errorf("%s: got %d requests, foreign: %v, want %d of its kind", kind, len(got), foreign, want)
			}
		}
	})
}
