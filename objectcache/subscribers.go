// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// keyQueue holds the keys that a subscriber has to look at, each once.
type keyQueue = workqueue.Typed[types.NamespacedName]

// subscribers are the queues of all callers that range over Changes.
type subscribers map[*keyQueue]struct{}

// notify adds a key to every queue.
func (s subscribers) notify(key types.NamespacedName) {
	for queue := range s {
		queue.Add(key)
	}
}

// shutDown ends every queue.
func (s subscribers) shutDown() {
	for queue := range s {
		queue.ShutDown()
	}
}
