// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Ready returns nil once the agent has caught up, and the cause before that. It has caught up when the node's pods were
// listed, and each volume of these pods was written or the cause why it cannot be written is in the status. So an
// object that is absent, forbidden or not delivered within 2 s does not keep the agent from being ready, and neither
// does the network after it was ready: the files are there.
func (a *Agent) Ready() error {
	a.mu.Lock()
	listed, pods := a.first != nil, slices.Sorted(maps.Values(a.first))
	a.mu.Unlock()
	switch {
	case !listed:
		if err := a.reflector.Status().LastError; err != nil {
			return fmt.Errorf("the node's pods have not been listed: %w", err)
		}
		return errors.New("the node's pods have not been listed")
	case len(pods) > 0:
		return fmt.Errorf("%d pods have not been synced for the first time, the first is %s", len(pods), pods[0])
	}
	return nil
}

// Hint returns what may be wrong although the agent is ready, or "": a node without pods may be one that does not
// exist. The agent has no right to look for the Node.
func (a *Agent) Hint() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil || len(a.pods) > 0 {
		return ""
	}
	return fmt.Sprintf("no pod that runs is bound to the node %q: is that its name?", a.node)
}

// setReady notes that a pod of the first list does not keep the agent from being ready any more.
func (a *Agent) setReady(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.first, uid)
}
