// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/kubelet"
)

// Two managers share a gate. They are what kubelet calls a secret.Manager and a configmap.Manager.
func ExampleNewWatchingSecretManager() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()

	gate := objectcache.NewGate(objectcache.GateOptions{})
	secrets, err := kubelet.NewWatchingSecretManager(server.Client(), time.Minute, gate)
	if err != nil {
		panic(err)
	}
	configMaps, err := kubelet.NewWatchingConfigMapManager(server.Client(), time.Minute, gate)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })
	running.Go(func() { _ = configMaps.Run(ctx) })

	var s secret.Manager = secrets
	var c configmap.Manager = configMaps
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "6f9c"},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}},
	}
	s.RegisterPod(pod)
	c.RegisterPod(pod)
	_, err = s.GetSecret("default", "registry")
	fmt.Println(err)
	_, err = c.GetConfigMap("default", "settings")
	fmt.Println(err)

	cancel()
	running.Wait()
	// Output:
	// secret "registry" not found
	// object "default"/"settings" not registered
}
