// SPDX-License-Identifier: Apache-2.0

package agent

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// setPods takes over the complete set of the node's pods. The UndeltaStore calls it after every event, on
// the one goroutine of the reflector. It never waits for the network.
//
// Pods are told apart by UID. One that was deleted and made anew under its old name between two calls is
// one pod that went and another that came, each with a folder of its own.
func (a *Agent) setPods(objects []any) {
	current := make(map[types.UID]*corev1.Pod, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok && !ended(pod) {
			current[pod.UID] = pod
		}
	}
	a.mu.Lock()
	before := a.pods
	a.pods = current
	a.mu.Unlock()

	// First those that come, then those that go: what they share is never without an owner between, and so
	// its stream goes on.
	for uid, pod := range current {
		// The very object, and not its version: a server that was restored from a copy hands out versions anew,
		// for other contents. After a relist all pods are taken for changed, which costs a look at the disk each.
		if before[uid] == pod {
			continue
		}
		a.secrets.RegisterPod(pod)
		a.configMaps.RegisterPod(pod)
		a.queue.Add(uid)
	}
	for uid, pod := range before {
		if _, ok := current[uid]; ok {
			continue
		}
		a.secrets.UnregisterPod(pod)
		a.configMaps.UnregisterPod(pod)
		a.queue.Add(uid)
	}
	if before != nil {
		return
	}
	// The first set is complete, for a reflector hands over its first read as a whole. A folder whose pod is
	// not in it belongs to a pod that went while no agent ran: its sync removes it.
	for _, uid := range a.leftovers {
		a.queue.Add(uid)
	}
}

// ended tells whether the containers of a pod have ended for good: nobody reads its volumes any more. A pod
// that is being deleted still runs, and keeps its volumes up to date until it is gone.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// pod returns the pod of a UID, or nil if it is gone or has ended.
func (a *Agent) pod(uid types.UID) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[uid]
}
