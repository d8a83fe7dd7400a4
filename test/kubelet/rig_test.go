// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubeletmanager "k8s.io/kubernetes/pkg/kubelet/util/manager"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

const (
	namespace = "default"
	// resyncInterval is kubelet's syncFrequency, a minute by default.
	resyncInterval = time.Minute
)

// rig is a manager, a client and an API server in one synctest bubble. The HTTP traffic is real, the time is virtual.
type rig struct {
	kubeletmanager.Manager

	t      *testing.T
	kind   kind
	server *apiserver.Server
	stop   func() // ends the manager, and waits for it if it can be waited for
}

// onBoth runs f with kubelet's manager and with ours, each for Secrets and for ConfigMaps. So kubelet's manager proves
// that the test expects what kubelet does.
func onBoth(t *testing.T, f func(r *rig)) {
	t.Helper()
	for _, k := range []kind{secrets, configMaps} {
		inBubble(t, k, "kubelet", startKubelet, f)
		inBubble(t, k, "refwatch", startOurs, f)
	}
}

// onOurs runs f with our manager, for Secrets and for ConfigMaps.
func onOurs(t *testing.T, f func(r *rig)) {
	t.Helper()
	for _, k := range []kind{secrets, configMaps} {
		inBubble(t, k, "refwatch", startOurs, f)
	}
}

// starter starts a manager, and returns a function that ends it.
type starter func(t *testing.T, k kind, client kubernetes.Interface) (m kubeletmanager.Manager, stop func())

func inBubble(t *testing.T, k kind, name string, start starter, f func(r *rig)) {
	t.Run(k.name+"/"+name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &rig{t: t, kind: k, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})}
			client, err := manager.ClientFor(r.server.Config())
			if err != nil {
				t.Fatal(err)
			}
			r.Manager, r.stop = start(t, k, client)
			f(r)
			r.server.Intercept(nil)
			r.stop()
			synctest.Wait()
		})
	})
}

// pod returns a pod that reads the objects into its environment.
func (r *rig) pod(uid types.UID, names ...string) *corev1.Pod {
	return r.podIn(namespace, uid, names...)
}

func (r *rig) podIn(namespace string, uid types.UID, names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod-" + string(uid), UID: uid}}
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "c-" + name, EnvFrom: []corev1.EnvFromSource{r.kind.envFrom(corev1.LocalObjectReference{Name: name})},
		})
	}
	return pod
}

// write creates or updates an object.
func (r *rig) write(name, value string, immutable bool) {
	r.t.Helper()
	if err := r.kind.write(r.t.Context(), r.server.Client(), name, value, immutable); err != nil {
		r.t.Fatalf("write %s: %v", name, err)
	}
	synctest.Wait()
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := r.kind.remove(r.t.Context(), r.server.Client(), name); err != nil {
		r.t.Fatalf("delete %s: %v", name, err)
	}
	synctest.Wait()
}

// streams returns the number of watches of an object that are open on the server.
func (r *rig) streams(name string) int {
	synctest.Wait()
	return r.server.OpenStreams(r.kind.resource, types.NamespacedName{Namespace: namespace, Name: name})
}

// requests returns the number of lists and watches so far.
func (r *rig) requests() (n int) {
	synctest.Wait()
	for _, request := range r.server.Requests() {
		if request.Verb == "list" || request.Verb == "watch" {
			n++
		}
	}
	return n
}

// holdBack blocks gets, lists and watches until release is called.
func (r *rig) holdBack() (release func()) {
	gate := make(chan struct{})
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "get" || request.Verb == "list" || request.Verb == "watch" {
			<-gate
		}
		return nil
	})
	return func() { close(gate); r.server.Intercept(nil) }
}

// wantValue checks that the object has a value.
func (r *rig) wantValue(name, want string) {
	r.t.Helper()
	object, err := r.GetObject(namespace, name)
	if err != nil {
		r.t.Fatalf("get %s: %v", name, err)
	}
	if got := r.kind.value(object); got != want {
		r.t.Errorf("%s: got value %q, want %q", name, got, want)
	}
}

// wantNotFound checks that the object is absent.
func (r *rig) wantNotFound(name string) {
	r.t.Helper()
	err := r.wantError(name)
	if want := fmt.Sprintf("%s %q not found", r.kind.name, name); !apierrors.IsNotFound(err) || !strings.HasPrefix(err.Error(), want) {
		r.t.Errorf("%s: got %v, want a NotFound with the text %q", name, err, want)
	}
}

// wantNotRegistered checks that no registered pod names the object.
func (r *rig) wantNotRegistered(namespace, name string) {
	r.t.Helper()
	object, err := r.GetObject(namespace, name)
	if want := fmt.Sprintf("object %q/%q not registered", namespace, name); object != nil || err == nil || err.Error() != want {
		r.t.Errorf("%s/%s: got %v, %v; want nil, %s", namespace, name, object, err, want)
	}
}

// wantError checks that GetObject returns an error and a nil without type.
func (r *rig) wantError(name string) error {
	r.t.Helper()
	object, err := r.GetObject(namespace, name)
	if err == nil {
		r.t.Fatalf("get %s: got an object, want an error", name)
	}
	if object != runtime.Object(nil) {
		r.t.Errorf("get %s: got a %T with the error, want nil without a type", name, object)
	}
	return err
}

func (r *rig) wantStreams(when, name string, want int) {
	r.t.Helper()
	if got := r.streams(name); got != want {
		r.t.Errorf("%s: got %d streams of %s, want %d", when, got, name, want)
	}
}
