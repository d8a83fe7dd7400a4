// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// checkReady fails unless Ready returns an error with a text, or none if the text is empty.
func (r *rig) checkReady(when, want string) {
	r.Helper()
	if err := r.agent.Ready(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		r.Errorf("Ready %s: got %v, want %q", when, err, want)
	}
}

// TestReady: the agent is ready once the pods were listed and their volumes were written or reported. Objects that are
// absent or hang delay it by seconds at most. A server that goes away later does not matter.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, apiserver.Options{InMemory: true})
		r.setSecret("there", "k", "1")
		r.setSecret("hanging", "k", "1")
		r.createPod("web-1", "node-1", secretVolume("there"), secretVolume("missing"))
		r.createPod("web-2", "node-1", secretVolume("hanging"))
		answer := make(chan struct{})
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Name == "hanging" {
				<-ctx.Done()
			} else if request.Resource == "pods" {
				select {
				case <-answer:
				case <-ctx.Done():
				}
			}
			return nil
		})
		r.start()
		synctest.Wait()
		r.checkReady("before the first list", "the node's pods have not been listed")
		if got := r.agent.Hint(); got != "" {
			t.Errorf("Hint before the first list: got %q, want none", got)
		}
		close(answer)
		time.Sleep(gracePeriod / 2)
		r.checkReady("while a Secret hangs", "1 pods have not been synced for the first time, the first is default/web-2")
		time.Sleep(10 * time.Second)
		r.checkReady("after the Secret was reported", "")

		r.createPod("web-3", "node-1", secretVolume("hanging"))
		synctest.Wait()
		r.checkReady("with a new pod that waits", "")
		r.server.Close()
		time.Sleep(time.Minute)
		r.checkReady("without the server", "")
	})
}

// TestHint: a node without pods may be one that does not exist. The agent is ready, and says so.
func TestHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, apiserver.Options{InMemory: true})
		r.createPod("web-1", "node-2")
		r.start()
		time.Sleep(time.Second)
		r.checkReady("without pods", "")
		if got, want := r.agent.Hint(), `no pod that runs is bound to the node "node-1": is that its name?`; got != want {
			t.Errorf("Hint without pods: got %q, want %q", got, want)
		}
		r.createPod("web-2", "node-1")
		synctest.Wait()
		if got := r.agent.Hint(); got != "" {
			t.Errorf("Hint with a pod: got %q, want none", got)
		}
	})
}

// TestReadyAfterDeletion: a pod of the first list that is deleted does not keep the agent from being ready. Without a
// server, the cause is the error of the list.
func TestReadyAfterDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, apiserver.Options{InMemory: true})
		r.createPod("web-1", "node-1", secretVolume("hanging"))
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Name == "hanging" {
				<-ctx.Done()
			}
			return nil
		})
		r.start()
		time.Sleep(gracePeriod / 4)
		r.checkReady("while a Secret hangs", "default/web-1")
		r.deletePod("web-1")
		synctest.Wait()
		r.checkReady("after the pod was deleted", "")
	})
}
