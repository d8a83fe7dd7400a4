// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// runDemo prints the short life of some pods on an API server in this process. Then, unless once is set, it prints
// what kubectl changes until ctx ends.
func runDemo(ctx context.Context, out io.Writer, once bool) (err error) {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	lines := make(chan string)
	p := newPods(server.Client(), metav1.NamespaceDefault, "", func(line string) {
		select {
		case lines <- line:
		case <-ctx.Done():
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-ended) }()

	printLine := func() error {
		select {
		case line := <-lines:
			fmt.Fprintln(out, line)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, step := range stepsOf(server) {
		fmt.Fprintf(out, "\n%s\n", step.title)
		err := step.do(ctx)
		for i := 0; i < step.changes && err == nil; i++ {
			err = printLine()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	fmt.Fprintf(out, "\nThe store holds: %s\n", strings.Join(p.store.ListKeys(), " "))
	if once {
		return nil
	}
	return useKubectl(server, out, printLine)
}

// useKubectl prints changes until printLine fails.
func useKubectl(server *apiserver.Server, out io.Writer, printLine func() error) error {
	file, err := os.CreateTemp("", "podreflector-*.kubeconfig")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := errors.Join(file.Close(), server.WriteKubeconfig(file.Name())); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nChange pods, until Ctrl-C:\n  kubectl --kubeconfig=%s label pod cache tier=1\n", file.Name())
	for err == nil {
		err = printLine()
	}
	return nil // ctx has ended
}

// step is a part of the demo.
type step struct {
	title   string
	changes int // how many lines it makes
	do      func(context.Context) error
}

func stepsOf(server *apiserver.Server) []step {
	pods := server.Client().CoreV1().Pods(metav1.NamespaceDefault)
	return []step{
		{"A pod is created.", 1, func(ctx context.Context) error { return create(ctx, pods, "web") }},
		{"Its containers run.", 1, func(ctx context.Context) error {
			running := []byte(`{"status":{"phase":"Running"}}`)
			_, err := pods.Patch(ctx, "web", "application/merge-patch+json", running, metav1.PatchOptions{}, "status")
			return err
		}},
		{"Another pod is created.", 1, func(ctx context.Context) error { return create(ctx, pods, "db") }},
		{"The stream breaks. Before the next one is open, db is deleted and cache is created.", 2, func(ctx context.Context) error {
			defer breakStream(server)()
			return errors.Join(pods.Delete(ctx, "db", metav1.DeleteOptions{}), create(ctx, pods, "cache"))
		}},
		{"The first pod is deleted.", 1, func(ctx context.Context) error { return pods.Delete(ctx, "web", metav1.DeleteOptions{}) }},
	}
}

func create(ctx context.Context, pods typedcorev1.PodInterface, name string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec = corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: name, Image: name + ":1"}}}
	_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// breakStream ends the stream, and holds the next one back until mend is called.
func breakStream(server *apiserver.Server) (mend func()) {
	mended := make(chan struct{})
	server.Intercept(func(ctx context.Context, r apiserver.Request) *metav1.Status {
		if r.Verb == "watch" || r.Verb == "list" {
			select {
			case <-mended:
			case <-ctx.Done():
			}
		}
		return nil
	})
	server.CloseStreams(nil)
	return func() { close(mended); server.Intercept(nil) }
}
