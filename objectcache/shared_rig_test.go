// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

const (
	// joined is longer than an object takes to join the shared stream: three bookmarks.
	joined = 4 * time.Minute
	// retried is longer than the pause before a shared stream is tried again, and the joining after it.
	retried = 10*time.Minute + joined
)

// sharedOptions share the namespace of the tests from a number of objects on.
func sharedOptions(threshold int) objectcache.WatchOptions {
	return objectcache.WatchOptions{Shared: objectcache.SharedOptions{Namespaces: []string{namespace}, Threshold: threshold}}
}

// sharedRig is a rig whose store shares the stream of the namespace.
type sharedRig struct {
	*rig

	refused atomic.Pointer[metav1.Status] // the answer to lists and watches of the whole namespace, if not nil
}

// newSharedRig returns a rig whose store the test replaces by one that shares streams. It does not run.
func newSharedRig(t *testing.T, server apiserver.Options) *sharedRig {
	t.Helper()
	return &sharedRig{rig: newRig(t, server, objectcache.WatchOptions{})}
}

func inSharedBubble(t *testing.T, options objectcache.WatchOptions, f func(*testing.T, *sharedRig)) {
	t.Helper()
	inSharedBubbleOn(t, apiserver.Options{InMemory: true}, options, f)
}

func inSharedBubbleOn(t *testing.T, server apiserver.Options, options objectcache.WatchOptions, f func(*testing.T, *sharedRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &sharedRig{rig: newRig(t, server, options)}
		r.server.Intercept(r.refuseShared)
		r.run()
		f(t, r)
		r.stop()
	})
}

// refuseShared answers lists and watches of the whole namespace with r.refused.
func (r *sharedRig) refuseShared(_ context.Context, request apiserver.Request) *metav1.Status {
	if isShared(request) {
		return r.refused.Load()
	}
	return nil
}

// isShared reports whether a request lists or watches the whole namespace.
func isShared(request apiserver.Request) bool {
	return request.Resource == "secrets" && request.Namespace == namespace && request.Name == "" && (request.Verb == "watch" || request.Verb == "list")
}

// sharedRequests returns how many lists and watches of the namespace the server has got.
func (r *sharedRig) sharedRequests() (count int) {
	synctest.Wait()
	for _, request := range r.server.Requests() {
		if isShared(request) {
			count++
		}
	}
	return count
}

// reference adds a reference to each name.
func (r *sharedRig) reference(names ...string) {
	for _, name := range names {
		r.AddReference(namespace, name, "pod")
	}
	synctest.Wait()
}

func (r *sharedRig) dereference(names ...string) {
	for _, name := range names {
		r.DeleteReference(namespace, name, "pod")
	}
	synctest.Wait()
}

// names returns n names: s0, s1 and so on.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("s%d", i))
	}
	return all
}

// wantStreams checks how many streams are open: of the namespace, and of the names.
func (r *sharedRig) wantStreams(when string, shared, own int) {
	r.t.Helper()
	synctest.Wait()
	got := r.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace})
	if all := r.server.TotalStreams(); got != shared || all-got != own {
		r.t.Errorf("%s: got %d streams of the namespace and %d of names, want %d and %d", when, got, all-got, shared, own)
	}
}

func (r *sharedRig) wantPhase(when string, phase objectcache.Phase, names ...string) {
	r.t.Helper()
	for _, name := range names {
		if got := r.phase(name); got != phase {
			r.t.Errorf("%s: %s: got phase %s, want %s", when, name, got, phase)
		}
	}
}

// wantValues checks what Get returns for each name.
func (r *sharedRig) wantValues(when, value string, names ...string) {
	r.t.Helper()
	synctest.Wait()
	for _, name := range names {
		if got, err := r.get(name, time.Second); err != nil || string(got.Data["password"]) != value {
			r.t.Errorf("%s: Get %s: got %v, %v, want %q", when, name, got, err, value)
		}
	}
}

// version returns the version of an object on the server.
func (r *sharedRig) version(name string) string {
	r.t.Helper()
	secret, err := r.client.CoreV1().Secrets(namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return secret.ResourceVersion
}

// closeShared ends the shared stream on the server.
func (r *sharedRig) closeShared() { r.server.CloseStreams(isShared) }

// createAll creates an object for each name.
func (r *sharedRig) createAll(names ...string) {
	for _, name := range names {
		r.create(name, func(s *corev1.Secret) { s.Data["password"] = []byte("0") })
	}
}

// blockShared blocks requests for the namespace until gate is closed.
func blockShared(gate chan struct{}) apiserver.Interceptor {
	return func(_ context.Context, request apiserver.Request) *metav1.Status {
		if isShared(request) {
			<-gate
		}
		return nil
	}
}
