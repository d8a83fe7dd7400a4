// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// serve starts an API server for an example, with one Secret and one ConfigMap.
func serve(ctx context.Context) *apiserver.Server {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	core := server.Client().CoreV1()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"tls.key": []byte("key")}}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue"}}
	if _, err := core.Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	if _, err := core.ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	return server
}

// A node agent registers the pods bound to its node and reads their Secrets.
func ExampleNewSecrets() {
	ctx, cancel := context.WithCancel(context.Background())
	server := serve(ctx)
	defer server.Close()

	secrets, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "6f9c"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
			Name:         "tls",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}},
		}}},
	}
	secrets.RegisterPod(pod)
	secret, err := secrets.Get(ctx, "default", "tls")
	fmt.Println(len(secret.Data), "key,", err)

	secrets.UnregisterPod(pod)
	_, err = secrets.Get(ctx, "default", "tls")
	fmt.Println(err)

	cancel()
	running.Wait()
	// Output:
	// 1 key, <nil>
	// secrets "default/tls": not registered: no owner references the object: add a reference, or set AcquireOnGet
}

// A config with a Transport leaves the streams to it. Here that is client-go's own, so net/http
// reads them, with two goroutines for each.
func ExampleClientFor_withTransport() {
	ctx, cancel := context.WithCancel(context.Background())
	server := serve(ctx)
	defer server.Close()
	config := server.Config()

	transport, err := rest.TransportFor(config)
	if err != nil {
		panic(err)
	}
	client, err := manager.ClientFor(&rest.Config{Host: config.Host, UserAgent: config.UserAgent, Transport: transport})
	if err != nil {
		panic(err)
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })

	tls := types.NamespacedName{Namespace: "default", Name: "tls"}
	secrets.SetReferences(manager.Owner{Kind: "Gateway", Namespace: "default", Name: "web"}, tls)
	secret, err := secrets.Get(ctx, "default", "tls")
	fmt.Println(len(secret.Data), "key,", err)
	fmt.Println("parked:", secrets.Stats().ParkedStreams)

	cancel()
	running.Wait()
	// Output:
	// 1 key, <nil>
	// parked: 0
}

// A gateway is not a pod: it declares its references, and receives the changes.
func ExampleManager_SetReferences() {
	ctx, cancel := context.WithCancel(context.Background())
	server := serve(ctx)
	defer server.Close()

	configs, err := manager.NewConfigMaps(server.Client(), objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = configs.Run(ctx) })

	gateway := manager.Owner{Kind: "Gateway", Namespace: "default", Name: "gateway", UID: "a1"}
	configs.SetReferences(gateway, types.NamespacedName{Namespace: "default", Name: "settings"})
	for change, owners := range configs.Changes(ctx) {
		fmt.Println(change.Key, change.Object.Data["colour"], "for", owners[0].Name)
		break
	}

	configs.SetReferences(gateway, types.NamespacedName{Namespace: "default", Name: "missing"})
	_, err = configs.Get(ctx, "default", "missing")
	fmt.Println(apierrors.IsNotFound(err), err)

	cancel()
	running.Wait()
	// Output:
	// default/settings blue for gateway
	// true configmaps "default/missing" not found
}
