// SPDX-License-Identifier: Apache-2.0

package agent

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// setPods replaces the set of the node's pods. The UndeltaStore calls it after every event, on the reflector's
// goroutine. It never waits for the network.
//
// Pods are identified by UID. A pod that was deleted and created again under the same name is another pod, with its own
// folder.
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
	if before == nil {
		a.first = map[types.UID]string{}
		for uid, pod := range current {
			a.first[uid] = pod.Namespace + "/" + pod.Name
		}
	}
	a.mu.Unlock()
	if hint := a.Hint(); before == nil && hint != "" {
		a.logger.Info("Waiting for pods: "+hint, "node", a.node)
	}

	// Register before unregistering: an object that an old and a new pod share keeps an owner, and so its stream.
	for uid, pod := range current {
		// Compare pointers, not versions: a restored server gives old versions to new contents. After a relist every
		// pod counts as changed, which costs one comparison with the files each.
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
		a.setReady(uid)
		a.queue.Add(uid)
	}
	if before != nil {
		return
	}
	// The first set is complete: a reflector delivers its first list at once. A folder without a pod in this set
	// belongs to a pod that was deleted while no agent ran. The sync removes it.
	for _, uid := range a.podsOnDisk {
		a.queue.Add(uid)
	}
}

// ended reports whether all containers of a pod have ended for good, so that its volumes are no longer read. A pod that
// is being deleted still runs, and its volumes are kept up to date.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// pod returns the pod with a UID, or nil if it was deleted or has ended.
func (a *Agent) pod(uid types.UID) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[uid]
}
