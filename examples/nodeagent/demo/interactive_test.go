// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// syncBuffer is a buffer on which a test can wait for a text.
type syncBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced by each Write
}

func (l *syncBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

// waitFor waits until the text matches a pattern, and returns the first match.
func (l *syncBuffer) waitFor(t *testing.T, pattern string) []string {
	t.Helper()
	for {
		l.mu.Lock()
		match, changed, text := regexp.MustCompile(pattern).FindStringSubmatch(l.text.String()), l.changed, l.text.String()
		l.mu.Unlock()
		if match != nil {
			return match
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("output: got no %s in:\n%s", pattern, text)
		}
	}
}

// TestInteractive runs the commands that the demo prints, with the kubeconfig and the manifest that it names.
func TestInteractive(t *testing.T) {
	d := newStarted(t)
	out := &syncBuffer{changed: make(chan struct{})}
	d.out = out
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.interactive(ctx, "none") }()
	out.waitFor(t, "Changes of volumes:")

	config, err := clientcmd.BuildConfigFromFlags("", out.waitFor(t, "export KUBECONFIG=(.*)")[1])
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config).CoreV1()
	manifest, err := os.ReadFile(out.waitFor(t, `create --validate=false -f (\S+)`)[1])
	if err != nil {
		t.Fatal(err)
	}
	var mine corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &mine); err != nil {
		t.Fatalf("manifest: %v:\n%s", err, manifest)
	}
	if _, err := client.Pods(mine.Namespace).Create(t.Context(), &mine, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out.waitFor(t, `mine: pods/.*/volumes/answer: secrets "shop/answer" not found\n`)
	if _, err := client.Secrets(namespace).Create(t.Context(), secret("answer", map[string]string{"answer": "42"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out.waitFor(t, `mine: pods/.*/volumes/answer: 1 file\n`)

	// A new version with the same number of files is printed, too.
	file := out.waitFor(t, `cat (\S+)`)[1]
	if err := d.setSecret("tls", map[string]string{"tls.crt": "x", "tls.key": "by hand"})(t.Context()); err != nil {
		t.Fatal(err)
	}
	out.waitFor(t, `web-1: pods/.*/volumes/tls: 2 files\n`)
	if got, err := os.ReadFile(file); err != nil || string(got) != "by hand" {
		t.Errorf("the printed file: got %q and error %v, want %q", got, err, "by hand")
	}
	if err := client.Pods(namespace).Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	out.waitFor(t, `mine: pods/.*/volumes/answer: removed\n`)
	out.mu.Lock()
	if text := out.text.String(); strings.Contains(text, "not synced") || strings.Contains(text, "canceled") {
		t.Errorf("output: got a line about a first read, which looks like a failure:\n%s", text)
	}
	out.mu.Unlock()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("interactive: got error %v, want none", err)
	}
}

// TestInteractiveAgentStopped: interactive returns an error when the agent ends by itself.
func TestInteractiveAgentStopped(t *testing.T) {
	d := newStarted(t)
	d.halt()
	if err := d.interactive(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "the agent has stopped") {
		t.Errorf("interactive: got error %v, want one that the agent has stopped", err)
	}
}
