// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodStatus is what the last sync of a pod came to.
type PodStatus struct {
	UID             types.UID
	Namespace, Name string
	// Volumes are those that this agent writes, in the order of the pod's spec.
	Volumes []VolumeStatus
}

// VolumeStatus is what the last sync of a volume came to.
type VolumeStatus struct {
	Name string
	// Path is the folder of the volume. It may not exist if the volume was never written.
	Path string
	// Files is how many files the volume holds. Only meaningful without Err.
	Files int
	// Err is why the volume could not be built or written. What is on disk stayed as it was then.
	Err error
	// LeftOut names the files that the volume is written without, each with its cause: tokens of the pod's
	// service account that this agent may not request.
	LeftOut []string

	changed bool      // the sync changed something on disk
	since   time.Time // of the first sync in a row that ended with Err
	logged  string    // the text of the last Err that was logged as an error, "" when there is no Err
}

// volume returns the status of a volume, zero if there is none.
func (s PodStatus) volume(name string) VolumeStatus {
	for _, v := range s.Volumes {
		if v.Name == name {
			return v
		}
	}
	return VolumeStatus{}
}

// Status returns the status of every pod that was synced, by UID. A pod that is gone leaves it when its
// folder is removed.
func (a *Agent) Status() map[types.UID]PodStatus {
	a.status.mu.Lock()
	defer a.status.mu.Unlock()
	return maps.Clone(a.status.pods)
}

// Changed returns a channel that is closed after the next sync of any pod. To wait for a status, take the
// channel first and look at the status then: no sync between the two is missed.
func (a *Agent) Changed() <-chan struct{} {
	a.status.mu.Lock()
	defer a.status.mu.Unlock()
	return a.status.changed
}

// board holds the status of all pods, and tells when it changes.
type board struct {
	mu      sync.Mutex
	pods    map[types.UID]PodStatus
	changed chan struct{} // closed, and replaced, at every change
}

func newBoard() *board {
	return &board{pods: map[types.UID]PodStatus{}, changed: make(chan struct{})}
}

// get returns the status of a pod, zero if it has none.
func (b *board) get(uid types.UID) PodStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pods[uid]
}

// set replaces the status of a pod. Only the one sync of a pod that is under way calls it.
func (b *board) set(status PodStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods[status.UID] = status
	b.notifyLocked()
}

func (b *board) remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, uid)
	b.notifyLocked()
}

func (b *board) notifyLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}
