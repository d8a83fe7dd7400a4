// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// cluster is an API server with one pod on the node "n". The pod has a secret volume and a token volume.
type cluster struct {
	server           *apiserver.Server
	kubeconfig, root string
	file             string // the file of the secret's one key
	token            string // the file of the token
}

// canary is the value in the Secret.
const canary = "canary-7f3a9e"

func newCluster(t *testing.T, options apiserver.Options) cluster {
	t.Helper()
	server := apiserver.New(t, options)
	c := clusterOf(t, server)
	client, meta := server.Client().CoreV1(), metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "db"}
	s := &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": canary}}
	if _, err := client.Secrets(s.Namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := client.ServiceAccounts(meta.Namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := client.Pods(meta.Namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName:   "n",
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "db"}}},
			{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.file = filepath.Join(c.root, "pods", string(p.UID), "volumes", "v", "password")
	c.token = filepath.Join(c.root, "pods", string(p.UID), "volumes", "t", "token")
	return c
}

// clusterOf returns a cluster without pods.
func clusterOf(t *testing.T, server *apiserver.Server) cluster {
	t.Helper()
	dir := t.TempDir()
	c := cluster{server: server, kubeconfig: filepath.Join(dir, "kubeconfig"), root: filepath.Join(dir, "root")}
	if err := server.WriteKubeconfig(c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// args returns the flags that run the agent for the cluster's node.
func (c cluster) args(more ...string) []string {
	return append([]string{"--kubeconfig=" + c.kubeconfig, "--node-name=n", "--root-dir=" + c.root, "--bind-address=127.0.0.1:0"}, more...)
}

// check fails unless the file holds the Secret's value.
func (c cluster) check(t *testing.T) {
	t.Helper()
	if got, err := os.ReadFile(c.file); err != nil || string(got) != canary {
		t.Errorf("file: got %q and error %v, want %q", got, err, canary)
	}
}

// runUntilFile runs the command in a goroutine until a file exists, and then ends its context.
func runUntilFile(t *testing.T, path string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := execute(ctx, args...)
		done <- err
	}()
	waitForFile(t, path, done)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("nodeagent: got error %v, want none", err)
	}
}

// TestNoServer: the agent waits for a server that cannot be reached, and returns no error when its context ends.
func TestNoServer(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, root := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "root")
	// Nothing listens on port 1.
	content := `{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	runUntilFile(t, filepath.Join(root, "pods"), "--kubeconfig="+kubeconfig, "--node-name=n", "--root-dir="+root, "--bind-address=0")
}

// TestLogsHoldNoSecrets runs the program at the highest verbosity. The server has no WatchList, so that client-go would
// log the lists' bodies.
func TestLogsHoldNoSecrets(t *testing.T) {
	c := newCluster(t, apiserver.Options{DisableWatchList: true})
	command, _ := program(t, c.args("-v=10")...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	waitForFile(t, c.file, done)
	waitForFile(t, c.token, done)
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("exit: got error %v, want status 0", err)
	}
	c.check(t)
	token, err := os.ReadFile(c.token)
	if err != nil || len(token) == 0 {
		t.Fatalf("token: got %d bytes and error %v, want it", len(token), err)
	}
	// The log has the requests, so -v=10 is in effect. It need not have the line that the volume was written: the file
	// exists a moment before.
	if !bytes.Contains(out.Bytes(), []byte("Starting to watch")) || !bytes.Contains(out.Bytes(), []byte("round_trippers")) {
		t.Errorf("log: got no line of a watch or of a request, want them at -v=10:\n%s", &out)
	}
	// The last is client-go's heading of a body; a protobuf body is a dump of bytes.
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), string(token), "Response Body"} {
		if bytes.Contains(out.Bytes(), []byte(form)) {
			t.Errorf("log at -v=10 holds %q", form)
		}
	}
}

// waitForFile polls until a file exists: another process offers nothing to wait on. done yields an error if the program
// ends first.
func waitForFile(t *testing.T, path string, done <-chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a test that passes does not reach it
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-ticker.C:
		case err := <-done:
			t.Fatalf("nodeagent: ended with error %v before it wrote %s", err, path)
		case <-ctx.Done():
			t.Fatalf("%s: did not appear", path)
		}
	}
}
