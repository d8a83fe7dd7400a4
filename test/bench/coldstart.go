// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// coldStarts is how many Secrets the worker of a controller gets.
	coldStarts = 200
	// follower may list and watch Secrets, and not get them.
	follower = "bench-follower"
)

// measureColdStart measures how long a contender takes that gets all Secrets one after the other, from its start on.
// Each is registered just before it is got, as with the first reconcile of each object of a controller with one worker.
// Another client writes ConfigMaps meanwhile.
func (w *worker) measureColdStart(ctx context.Context) error {
	return w.whileBusy(ctx, func(ctx context.Context) error { return w.coldStart(ctx, false) })
}

// measureColdStartReferenced is measureColdStart, but all Secrets are registered before the first is got.
func (w *worker) measureColdStartReferenced(ctx context.Context) error {
	return w.whileBusy(ctx, func(ctx context.Context) error { return w.coldStart(ctx, true) })
}

// measureInTurn is measureColdStart while nobody else writes.
func (w *worker) measureInTurn(ctx context.Context) error { return w.coldStart(ctx, false) }

// measureCommand is measureColdStartReferenced while nobody else writes, as a command that reads some objects and ends.
func (w *worker) measureCommand(ctx context.Context) error { return w.coldStart(ctx, true) }

func (w *worker) coldStart(ctx context.Context, registerAll bool) error {
	began := time.Now()
	if err := w.start(ctx); err != nil {
		return err
	}
	pods := w.Set.pods(1)
	if registerAll {
		for _, pod := range pods {
			w.contender.RegisterPod(pod)
		}
	}
	for i, pod := range pods {
		if !registerAll {
			w.contender.RegisterPod(pod)
		}
		if err := w.getFirst(ctx, i); err != nil {
			return err
		}
	}
	w.round.Values[fmt.Sprint(w.Scenario, "-seconds-", w.Set.Count)] = time.Since(began).Seconds()
	w.round.Values[fmt.Sprint(w.Scenario, "-failed-gets-", w.Set.Count)] = float64(w.failed.Load())
	return nil
}

// allowFollower makes a role for the user follower, unless there is one.
func allowFollower(ctx context.Context, client kubernetes.Interface) error {
	name := metav1.ObjectMeta{Name: follower}
	roles := client.RbacV1()
	if _, err := roles.ClusterRoleBindings().Get(ctx, follower, metav1.GetOptions{}); err == nil {
		return nil
	}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}},
	}}
	if _, err := roles.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: follower},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: follower}},
	}, metav1.CreateOptions{})
	return err
}
