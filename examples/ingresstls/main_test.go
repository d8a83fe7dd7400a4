// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// asProgram in the environment makes the test binary run as the program.
const asProgram = "REFWATCH_INGRESSTLS_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	goleak.VerifyTestMain(m)
}

// program returns a command that runs the program with arguments and its own temporary folder.
func program(t *testing.T, args ...string) (command *exec.Cmd, temp string) {
	t.Helper()
	temp = t.TempDir()
	command = exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp)
	return command, temp
}

// execute runs the command with arguments and returns its output.
func execute(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	command := newCommand()
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(ctx)
	return out.String(), err
}

// TestUnknownFlag: a wrong flag is one line, which names the help, and not the help itself.
func TestUnknownFlag(t *testing.T) {
	command, _ := program(t, "--none")
	out, err := command.CombinedOutput()
	if want := "Error: unknown flag: --none; see --help\n"; err == nil || string(out) != want {
		t.Errorf("output: got %q and error %v, want %q and status 1", out, err, want)
	}
}

// TestOnce runs the demo as a user does: status 0, every step printed, no files left.
func TestOnce(t *testing.T) {
	command, temp := program(t, "--once")
	out, err := command.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("All 10 steps succeeded")) || bytes.Contains(out, []byte("FAILED")) {
		t.Fatalf("ingresstls --once: got error %v, want that all 10 steps succeeded; it printed:\n%s", err, out)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) != 0 {
		t.Errorf("temporary folder: got %v and error %v, want it empty", left, err)
	}
}

// TestCurl runs the demo, and then the curl command that it prints. A signal ends it with status 0.
func TestCurl(t *testing.T) {
	command, temp := program(t, "--rotate-interval=1s")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var curl string
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "What clients get") {
		if strings.HasPrefix(lines.Text(), "  curl ") {
			curl = lines.Text()
		}
	}
	if path, err := exec.LookPath("curl"); err != nil {
		t.Log("curl is not installed")
	} else {
		args := append([]string{"--silent", "--show-error"}, strings.Fields(curl)[1:]...)
		answer, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		if err != nil || !bytes.Contains(answer, []byte("host    square.example\n")) {
			t.Errorf("%s: got error %v and\n%s\nwant the answer of square.example", curl, err, answer)
		}
	}
	for lines.Scan() && !strings.Contains(lines.Text(), "square.example: serial number 9") {
		continue // the demo issues 8 at most, so this is a rotation
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := command.Wait(); err != nil {
		t.Errorf("exit: got error %v, want status 0", err)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) != 0 {
		t.Errorf("temporary folder: got %v and error %v, want it empty", left, err)
	}
}

// newCluster returns the path of a kubeconfig of a server with an Ingress.
func newCluster(t *testing.T) string {
	t.Helper()
	server := apiserver.New(t, apiserver.Options{})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := server.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "b", Hosts: []string{"b.test"}}, {SecretName: "a"}, {SecretName: "no/name"}}
	ingresses := server.Client().NetworkingV1().Ingresses(metav1.NamespaceDefault)
	if _, err := ingresses.Create(t.Context(), ingress, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestPrintRoles: the Roles name what the Ingresses reference, but no name that no Secret can have.
func TestPrintRoles(t *testing.T) {
	got, err := execute(t.Context(), "--kubeconfig="+newCluster(t), "--print-roles")
	const want = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: refwatch-ingresstls
  namespace: default
rules:
- apiGroups:
  - ""
  resourceNames:
  - a
  - b
  resources:
  - secrets
  verbs:
  - get
  - list
  - watch
`
	if err != nil || got != want {
		t.Errorf("--print-roles: got error %v and\n%s\nwant\n%s", err, got, want)
	}
}

// TestCluster: with a kubeconfig the program serves until a signal ends it, with status 0.
func TestCluster(t *testing.T) {
	command, _ := program(t, "--kubeconfig="+newCluster(t), "--bind-address=127.0.0.1:0", "--default-certificate=default/none")
	logs, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(logs)
	var log strings.Builder
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), `"Serving HTTPS"`) {
			break
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, logs)
	if err := command.Wait(); err != nil || !strings.Contains(log.String(), "Serving HTTPS") {
		t.Errorf("exit: got error %v, want status 0 after serving; it logged:\n%s", err, &log)
	}
}

// TestClusterNoServer: a server that cannot be reached is waited for.
func TestClusterNoServer(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	// Nothing listens on port 1.
	content := `{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := execute(ctx, "--kubeconfig="+kubeconfig); err != nil {
		t.Errorf("got error %v, want none; it printed:\n%s", err, out)
	}
}

func TestBadInput(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // the test itself may run in a pod
	kubeconfig := "--kubeconfig=" + newCluster(t)
	for name, tc := range map[string]struct {
		args    []string
		wantErr string
	}{
		"unknown flag":              {[]string{"--bind=x"}, "unknown flag: --bind"},
		"an argument":               {[]string{"now"}, `unexpected argument "now"; see --help`},
		"empty kubeconfig":          {[]string{"--kubeconfig="}, "--kubeconfig is empty"},
		"empty namespace":           {[]string{kubeconfig, "--namespace="}, "--namespace is empty"},
		"kubeconfig missing":        {[]string{"--kubeconfig=/no/such/file"}, "cannot be used"},
		"kubeconfig /dev/null":      {[]string{"--kubeconfig=/dev/null"}, "--kubeconfig /dev/null cannot be used: it names no cluster"},
		"two clusters":              {[]string{kubeconfig, "--in-cluster"}, "--kubeconfig and --in-cluster both name a cluster"},
		"in no cluster":             {[]string{"--in-cluster"}, "--in-cluster cannot be used: unable to load in-cluster configuration"},
		"once, in a cluster":        {[]string{"--in-cluster", "--once"}, "--once is for the demo"},
		"once, with a cluster":      {[]string{kubeconfig, "--once"}, "--once is for the demo"},
		"rotations, with a cluster": {[]string{kubeconfig, "--rotate-interval=1s"}, "--rotate-interval is for the demo"},
		"negative interval":         {[]string{"--rotate-interval=-1s"}, "--rotate-interval is negative"},
		"namespace in the demo":     {[]string{"--namespace=x"}, "--namespace is for a cluster"},
		"roles in the demo":         {[]string{"--print-roles"}, "--print-roles is for a cluster"},
		"address without a port":    {[]string{"--bind-address=127.0.0.1"}, "is not IP:PORT"},
		"default without a slash":   {[]string{kubeconfig, "--default-certificate=tls"}, "is not NAMESPACE/NAME"},
		"address in use":            {[]string{kubeconfig, "--bind-address=192.0.2.1:1"}, "--bind-address 192.0.2.1:1 cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t.Context(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("ingresstls %q: got error %v, want one with %q", tc.args, err, tc.wantErr)
			}
		})
	}
}
