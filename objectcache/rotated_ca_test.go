// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/apiserver"
)

// The CA of the server is replaced, then the file that the client reads it from, and the
// connections break in between. The store goes on without a restart.
func TestCAIsRotated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(ca []byte) {
		if err := os.WriteFile(file, ca, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inParkedBubble(t, 3, apiserver.Options{}, func(_ *parkedRig, config *rest.Config) {
		write(config.CAData)
		config.CAData, config.CAFile = nil, file
	}, func(t *testing.T, r *parkedRig) {
		r.reference()
		if err := r.server.RotateCA(); err != nil {
			t.Fatal(err)
		}
		r.cut()
		time.Sleep(time.Minute)
		r.updateAll("new")
		if got := r.server.TotalStreams(); got != 0 {
			t.Errorf("while the client has the old CA: got %d streams, want none", got)
		}
		r.wantAll("while the client has the old CA", canary, 0)
		write(r.server.Config().CAData)
		r.wantAll("with the new CA", "new", 10*time.Minute)
	})
}
