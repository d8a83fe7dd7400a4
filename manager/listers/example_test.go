// SPDX-License-Identifier: Apache-2.0

package listers_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/listers"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Code that takes a client-go lister reads the Secrets of registered pods.
func ExampleSecrets() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	tls := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls", Labels: map[string]string{"app": "web"}}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(ctx, tls, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	secrets, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })
	secrets.RegisterPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "6f9c"},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "tls"}}},
	})

	var lister corev1listers.SecretLister
	if lister, err = listers.Secrets(secrets, listers.Options{}); err != nil {
		panic(err)
	}
	secret, err := lister.Secrets("default").Get("tls") // waits for the first sync
	fmt.Println(secret.Name, err)
	web, err := lister.List(labels.SelectorFromSet(labels.Set{"app": "web"}))
	fmt.Println(len(web), err)
	_, err = lister.Secrets("default").Get("other")
	fmt.Println(err)

	cancel()
	running.Wait()
	// Output:
	// tls <nil>
	// 1 <nil>
	// secrets "default/other": not registered: no owner references the object: add a reference, or set AcquireOnGet
}
