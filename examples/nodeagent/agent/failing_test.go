// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// TestFailingPodsDoNotDelayOthers: issue 8, point 12. A node has 250 pods, each with its own Secret that cannot be
// read. In virtual time, an update of a healthy pod's Secret and a new pod with that Secret are on disk at once. The
// other Secrets are on disk soon after they can be read.
func TestFailingPodsDoNotDelayOthers(t *testing.T) {
	const failing = 250
	for name, test := range map[string]struct {
		answer   func(context.Context, apiserver.Request) *metav1.Status
		reported []string // of each failing pod
	}{
		"forbidden": {func(_ context.Context, request apiserver.Request) *metav1.Status {
			return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, errors.New("no relationship found")).ErrStatus
		}, []string{"is forbidden", "no relationship found"}},
		"hanging": {func(ctx context.Context, _ apiserver.Request) *metav1.Status {
			<-ctx.Done()
			return nil
		}, []string{"not synced", errNotInMemory.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRigWith(t, apiserver.Options{InMemory: true})
				r.setSecret("open", "k", "1")
				healthy := r.createPod("healthy", "node-1", secretVolume("open"))
				r.start()
				r.eventuallyHas(healthy, "open", "k", "1")
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Resource == "secrets" && strings.HasPrefix(request.Name, "closed-") && slices.Contains([]string{"list", "watch", "get"}, request.Verb) {
						return test.answer(ctx, request)
					}
					return nil
				})
				var pods []*corev1.Pod
				for i := range failing {
					secret := fmt.Sprintf("closed-%d", i)
					r.setSecret(secret, "k", "1")
					pods = append(pods, r.createPod(fmt.Sprintf("web-%d", i), "node-1", secretVolume(secret)))
				}
				time.Sleep(10 * time.Second)

				began := time.Now()
				r.setSecret("open", "k", "2")
				r.eventuallyHas(healthy, "open", "k", "2")
				added := r.createPod("added", "node-1", secretVolume("open"))
				r.eventuallyHas(added, "open", "k", "2")
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("update of a healthy pod and a new pod beside %d failing pods: got %v, want at once", failing, took)
				}

				for i, pod := range pods {
					secret := fmt.Sprintf("closed-%d", i)
					r.eventuallyFails(pod, secret, append(test.reported, "default/"+secret)...)
				}

				r.server.Intercept(nil)
				for _, pod := range pods {
					r.eventuallyHas(pod, strings.Replace(pod.Name, "web", "closed", 1), "k", "1")
				}
			})
		})
	}
}
