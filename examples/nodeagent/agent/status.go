// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodStatus is the result of the last sync of a pod.
type PodStatus struct {
	UID             types.UID
	Namespace, Name string
	// Volumes are the volumes that the agent writes, in the order of the pod's spec.
	Volumes []VolumeStatus
}

// VolumeStatus is the result of the last sync of a volume.
type VolumeStatus struct {
	Name string
	// Path is the folder of the volume. It does not exist if the volume was never written.
	Path string
	// Files is the number of files in the volume. It is valid if Err is nil.
	Files int
	// Err says why the volume could not be built or written. The files on disk were not changed then. Err also says
	// why a token that is in the volume cannot be renewed. The other files were written then, and the token stays.
	Err error
	// Pending means that Err is no failure yet: the first read of an object, or the request of a token, began less than
	// 2 s ago. The volume is written when the answer arrives.
	Pending bool
	// LeftOut lists the files that are missing from the volume on disk, each with its cause: tokens of the pod's
	// service account that the agent may not request.
	LeftOut []string
	// Conflicts names sources of the volume on disk that have paths in common, at most ten pairs: the later source has
	// the file.
	Conflicts []string

	changed bool      // the sync changed files
	written bool      // the volume is up to date; with an Err, but for its tokens
	since   time.Time // of the first of consecutive syncs with an Err
	logged  string    // the last Err that was logged as an error; "" if there is no Err
}

// settled reports whether each volume is written, or the cause why it is not was logged.
func (s PodStatus) settled() bool {
	return !slices.ContainsFunc(s.Volumes, func(v VolumeStatus) bool { return v.Err != nil && v.logged == "" })
}

// volume returns the status of a volume, or a zero status if there is none.
func (s PodStatus) volume(name string) VolumeStatus {
	for _, v := range s.Volumes {
		if v.Name == name {
			return v
		}
	}
	return VolumeStatus{}
}

// Status returns the status of every pod that was synced, by UID. The status of a deleted pod is dropped when its
// folder is removed.
func (a *Agent) Status() map[types.UID]PodStatus {
	a.status.mu.Lock()
	defer a.status.mu.Unlock()
	return maps.Clone(a.status.pods)
}

// Changed returns a channel that is closed after the next sync of any pod. To wait for a status, call Changed before
// Status: a sync between the two calls is not missed.
func (a *Agent) Changed() <-chan struct{} {
	a.status.mu.Lock()
	defer a.status.mu.Unlock()
	return a.status.changed
}

// statuses holds the status of all pods and a channel that is closed at the next change.
type statuses struct {
	mu      sync.Mutex
	pods    map[types.UID]PodStatus
	changed chan struct{} // closed and replaced at every change
}

func newStatuses() *statuses {
	return &statuses{pods: map[types.UID]PodStatus{}, changed: make(chan struct{})}
}

// get returns the status of a pod, or a zero status if there is none.
func (s *statuses) get(uid types.UID) PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// set replaces the status of a pod. Calls for one pod do not overlap: only its sync calls set.
func (s *statuses) set(status PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[status.UID] = status
	s.notifyLocked()
}

func (s *statuses) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	s.notifyLocked()
}

func (s *statuses) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}
