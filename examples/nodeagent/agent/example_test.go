// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

// An agent writes the volumes of the node's pods. The program waits for the status of one of them.
func Example() {
	server, pod, err := serverWithPod()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	root, err := os.MkdirTemp("", "agent-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root) //nolint:errcheck // a temporary folder, in an example

	client, err := manager.ClientFor(server.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := agent.New(agent.Options{Client: client, NodeName: "node-1", RootDir: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()

	for {
		changed := a.Changed() // before Status, so that no sync is missed
		if status, ok := a.Status()[pod.UID]; ok && status.Volumes[0].Err == nil {
			data, _ := os.ReadFile(filepath.Join(status.Volumes[0].Path, "password"))
			fmt.Printf("%s: volume %s has %d file: %s\n", status.Name, status.Volumes[0].Name, status.Volumes[0].Files, data)
			break
		}
		<-changed
	}
	cancel()
	fmt.Println("ended with error", <-done)
	// Output:
	// web-1: volume db has 1 file: made up
	// ended with error <nil>
}

// serverWithPod starts a server that has a pod, bound to "node-1", with a secret volume.
func serverWithPod() (*apiserver.Server, *corev1.Pod, error) {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		return nil, nil, err
	}
	core, meta := server.Client().CoreV1(), metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "db"}
	_, err = core.Secrets(meta.Namespace).Create(context.Background(), &corev1.Secret{
		ObjectMeta: meta, StringData: map[string]string{"password": "made up"},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, err
	}
	meta.Name = "web-1"
	pod, err := core.Pods(meta.Namespace).Create(context.Background(), &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName:   "node-1",
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		Volumes:    []corev1.Volume{{Name: "db", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "db"}}}},
	}}, metav1.CreateOptions{})
	return server, pod, err
}
