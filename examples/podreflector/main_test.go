// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// asProgram in the environment makes the test binary run as the program.
const asProgram = "REFWATCH_PODREFLECTOR_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const demoOutput = `
A pod is created.
added    default/web     Pending  node-1

Its containers run.
updated  default/web     Running  node-1

Another pod is created.
added    default/db      Pending  node-1

The stream breaks. Before the next one is open, db is deleted and cache is created.
deleted  default/db      Pending  node-1  (while no stream was open)
added    default/cache   Pending  node-1

The first pod is deleted.
deleted  default/web     Running  node-1

The store holds: default/cache
`

// The demo prints each change of its pods once.
func TestOnce(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--once"}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != demoOutput {
		t.Errorf("output: got\n%s\nwant\n%s", got, demoOutput)
	}
}

// started is the program while it runs, and the lines that it prints.
type started struct {
	*testing.T

	lines *bufio.Scanner
	stop  func() (rest string, err error) // ends its context, and returns the output that is left
}

func start(t *testing.T, args ...string) *started {
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, out, args)
		_ = out.Close()
	}()
	p := &started{T: t, lines: bufio.NewScanner(in)}
	p.stop = func() (string, error) {
		cancel()
		var rest []string
		for p.lines.Scan() {
			rest = append(rest, p.lines.Text())
		}
		return strings.Join(rest, "\n"), <-ended
	}
	t.Cleanup(cancel)
	return p
}

// next returns the next lines.
func (p *started) next(count int) (lines []string) {
	for range count {
		if !p.lines.Scan() {
			_, err := p.stop()
			p.Fatalf("the program ended with error %v", err)
		}
		lines = append(lines, p.lines.Text())
	}
	return lines
}

// Without --once the demo goes on until its context ends, prints what kubectl changes, and leaves no file behind.
func TestDemoGoesOn(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p := start(t)
	lines := p.next(strings.Count(demoOutput, "\n") + 3)
	if files, err := filepath.Glob(filepath.Join(temp, "*.kubeconfig")); err != nil || len(files) != 1 || !strings.Contains(lines[len(lines)-1], files[0]) {
		t.Errorf("kubeconfig: got %v and error %v, want the one that is printed:\n%s", files, err, strings.Join(lines, "\n"))
	}
	if rest, err := p.stop(); err != nil || rest != "" {
		t.Errorf("end: got error %v and output %q, want none", err, rest)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files: got %v and error %v, want none", left, err)
	}
}

// With --kubeconfig the program prints the selected pods of that cluster until its context ends.
func TestCluster(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := server.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dns"}}
	pod.Spec = corev1.PodSpec{NodeName: "node-2", Containers: []corev1.Container{{Name: "dns", Image: "dns:1"}}}
	client := server.Client().CoreV1()
	_, err := client.Pods(metav1.NamespaceSystem).Create(t.Context(), pod, metav1.CreateOptions{})
	if err := errors.Join(err, create(t.Context(), client.Pods(metav1.NamespaceDefault), "web")); err != nil {
		t.Fatal(err)
	}
	web, dns := "added    default/web     Pending  node-1", "added    kube-system/dns Pending  node-2"
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"all":                 {nil, []string{web, dns}},
		"namespace":           {[]string{"--namespace=kube-system"}, []string{dns}},
		"node":                {[]string{"--node-name=node-1"}, []string{web}},
		"node and namespace":  {[]string{"--namespace=default", "--node-name=node-1"}, []string{web}},
		"nothing is selected": {[]string{"--namespace=default", "--node-name=node-2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, append(test.args, "--kubeconfig="+kubeconfig)...)
			got := p.next(len(test.want))
			slices.Sort(got) // the order of a state is random
			if !slices.Equal(got, test.want) {
				t.Errorf("output: got %q, want %q", got, test.want)
			}
			if err := server.WaitFor(t.Context(), func() bool { return server.TotalStreams() == 1 }); err != nil {
				t.Fatal(err)
			}
			if rest, err := p.stop(); err != nil || rest != "" {
				t.Errorf("end: got error %v and output %q, want none", err, rest)
			}
			if err := server.WaitFor(t.Context(), func() bool { return server.TotalStreams() == 0 }); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// After the demo's steps a signal ends the program with status 0. Bad input ends it with status 1.
func TestExitStatus(t *testing.T) {
	program := func(args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), os.Args[0], args...)
		command.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir())
		return command
	}
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		command := program()
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.Contains(lines.Text(), "kubectl") {
			continue
		}
		if err := errors.Join(command.Process.Signal(signal), command.Wait()); err != nil {
			t.Errorf("%v: got error %v, want status 0", signal, err)
		}
	}
	out, err := program("--kubeconfig=/no/such/file").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "Error: --kubeconfig /no/such/file cannot be used") {
		t.Errorf("bad input: got error %v and output %q, want status 1 and the error", err, out)
	}
}

func TestBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":       {[]string{"--nodename=x"}, "-nodename; see --help"},
		"an argument":        {[]string{"now"}, `unexpected argument "now"; see --help`},
		"once, no boolean":   {[]string{"--once=perhaps"}, "invalid boolean"},
		"demo, namespace":    {[]string{"--namespace=x"}, "need a --kubeconfig"},
		"demo, node":         {[]string{"--once", "--node-name=x"}, "need a --kubeconfig"},
		"kubeconfig empty":   {[]string{"--kubeconfig="}, "--kubeconfig is empty"},
		"kubeconfig missing": {[]string{"--kubeconfig=/no/such/file"}, "cannot be used"},
		"once and a cluster": {[]string{"--kubeconfig=/no/such/file", "--once"}, "omit one of the two"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), io.Discard, test.args); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"--help"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-kubeconfig", "-namespace", "-node-name", "-once"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help: got no %s in:\n%s", want, &out)
		}
	}
}
