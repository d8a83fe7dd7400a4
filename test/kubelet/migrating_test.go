// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/kubelet/secret"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// readWithRefwatch is the code of docs/guides/migrating.md after the migration.
func readWithRefwatch(ctx context.Context, config *rest.Config, pod *corev1.Pod, ended chan<- error) (*corev1.Secret, error) {
	client, err := manager.ClientFor(config)
	if err != nil {
		return nil, err
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{IdleTimeout: 5 * time.Minute})
	if err != nil {
		return nil, err
	}
	go func() { ended <- secrets.Run(ctx) }()
	secrets.RegisterPod(pod)
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return secrets.Get(wait, pod.Namespace, "tls")
}

// The code of the guide before and after the migration. Kubelet's manager never stops, so
// its code is only compiled.
func Example_migrate() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "6f9c"},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "tls"}}},
	}
	kubeClient := server.Client()
	_ = func() (*corev1.Secret, error) {
		secrets := secret.NewWatchingSecretManager(kubeClient, time.Minute)
		secrets.RegisterPod(pod)
		return secrets.GetSecret(pod.Namespace, "tls") // waits for a second
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	_, err = readWithRefwatch(ctx, server.Config(), pod, ended)
	fmt.Println(apierrors.IsNotFound(err))
	stop()
	fmt.Println(<-ended)
	// Output:
	// true
	// <nil>
}
