// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// TestWarmUp: all Secrets are asked for before the server has answered for the first. Without the warm-up one worker
// asks for one after the other: the first Get fails after SyncTimeout, and the status says so.
func TestWarmUp(t *testing.T) {
	r := newRig(t)
	names := []string{"db", "tls", "vault"}
	for _, name := range names {
		r.createSecret(name)
	}
	r.createSite("shop", names...)
	var mu sync.Mutex
	asked, all, statuses := map[string]bool{}, make(chan struct{}), 0
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		mu.Lock()
		if request.Resource == "sites" && request.Verb == "patch" {
			statuses++
		}
		if request.Resource != "secrets" {
			mu.Unlock()
			return nil
		}
		if before := len(asked); before < len(names) {
			if asked[request.Name] = true; len(asked) == len(names) {
				close(all)
			}
		}
		mu.Unlock()
		select {
		case <-all:
		case <-ctx.Done():
		}
		return nil
	})
	r.start(Options{})
	r.wantSite("shop", "SecretsRead", "", nil)
	mu.Lock()
	defer mu.Unlock()
	if statuses != 1 {
		t.Errorf("got %d statuses of the Site, want that with all Secrets only", statuses)
	}
}
