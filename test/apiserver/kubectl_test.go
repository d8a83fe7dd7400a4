// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const manifest = `apiVersion: v1
kind: Secret
metadata: {name: db}
stringData: {user: admin}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
`

// kubectl runs the kubectl in PATH.
type kubectl struct {
	t          *testing.T
	kubeconfig string
	env        []string
}

func newKubectl(t *testing.T, s *Server) *kubectl {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not in PATH: install it to run this test")
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := s.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	return &kubectl{t, kubeconfig, append(os.Environ(), "HOME="+dir, "KUBECONFIG="+kubeconfig)}
}

func (k *kubectl) command(stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(k.t.Context(), "kubectl", args...)
	cmd.Env = k.env
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// run returns the output of kubectl. It fails the test if kubectl fails.
func (k *kubectl) run(stdin string, args ...string) string {
	k.t.Helper()
	var stderr bytes.Buffer
	cmd := k.command(stdin, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		k.t.Fatalf("kubectl %v: %v\n%s%s", args, err, out, stderr.String())
	}
	return string(out)
}

// TestKubectl runs common commands, in order.
func TestKubectl(t *testing.T) {
	k := newKubectl(t, New(t, Options{}))
	for _, step := range []struct {
		name, stdin string
		args        string
		want        []string
	}{
		{"create -f", manifest, "create -f -", []string{"secret/db created", "configmap/settings created"}},
		{"get", "", "get secrets", []string{"NAME", "TYPE", "DATA", "AGE", "db", "Opaque", "1"}},
		{"get -o yaml", "", "get secret db -o yaml", []string{"user: YWRtaW4=", "kind: Secret"}},
		{"get two kinds", "", "get secrets,configmaps -A -o name", []string{"secret/db", "configmap/settings"}},
		{"apply", strings.Replace(manifest, "blue", "red", 1), "apply --validate=false -f -", []string{"configmap/settings configured"}},
		{"apply again", strings.Replace(manifest, "blue", "red", 1), "apply -f -", []string{"configmap/settings unchanged"}},
		{"server-side apply", strings.Replace(manifest, "blue", "green", 1), "apply --server-side -f -", []string{"configmap/settings serverside-applied"}},
		{"read it back", "", "get configmap settings -o jsonpath={.data.colour}", []string{"green"}},
		{"create secret", "", "create secret generic other --from-literal=a=b", []string{"secret/other created"}},
		{"patch", "", `patch secret other -p {"metadata":{"labels":{"app":"web"}}}`, []string{"secret/other patched"}},
		{"json patch", "", `patch secret other --type=json -p [{"op":"remove","path":"/data/a"}]`, []string{"secret/other patched"}},
		{"label selector", "", "get secrets -l app=web -o name", []string{"secret/other"}},
		{"annotate", "", "annotate secret other by=test", []string{"secret/other annotated"}},
		{"replace", strings.Replace(manifest, "blue", "white", 1), "replace -f -", []string{"secret/db replaced"}},
		{"server dry run", "", "create configmap never --dry-run=server", []string{"configmap/never created (server dry run)"}},
		{"run", "", "run web --image=registry.test/web:v1", []string{"pod/web created"}},
		{"get pods", "", "get pods -o wide", []string{"READY", "STATUS", "web", "0/1", "Pending"}},
		{"create namespace", "", "create namespace team", []string{"namespace/team created"}},
		{"create in it", "", "create configmap x -n team", []string{"configmap/x created"}},
		{"delete namespace", "", "delete namespace team", []string{`namespace "team" deleted`}},
		{"delete", "", "delete secret other", []string{`secret "other" deleted`}},
		{"delete -f", manifest, "delete -f -", []string{`secret "db" deleted`, `configmap "settings" deleted`}},
		{"delete pod", "", "delete pod web", []string{`pod "web" deleted`}},
		{"api-resources", "", "api-resources", []string{"secrets", "configmaps", "pods", "nodes", "namespaces", "serviceaccounts"}},
	} {
		// Not subtests: each step depends on the previous ones.
		out := k.run(step.stdin, strings.Fields(step.args)...)
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: got\n%s\nwant %q in it", step.name, out, want)
			}
		}
	}
}

func TestKubectlRefusals(t *testing.T) {
	k := newKubectl(t, New(t, Options{}))
	for name, test := range map[string]struct{ stdin, args, want string }{
		"absent":        {"", "get secret none", `secrets "none" not found`},
		"bad name":      {"", "create secret generic A_b", "a lowercase RFC 1123 subdomain"},
		"no namespace":  {"", "create configmap a -n nowhere", `namespaces "nowhere" not found`},
		"unknown field": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z"},"dota":{}}`, "create -f -", `unknown field "dota"`},
		"unknown label": {"", "get pods --field-selector foo=bar", "field label not supported: foo"},
		"wrong token":   {"", "get secrets --token=wrong", "must be logged in"},
		"unknown kind":  {"", "get services", "the server doesn't have a resource type"},
		"scale a node":  {"", "scale node x --replicas=2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := k.command(test.stdin, strings.Fields(test.args)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("got %s, %v, want a failure with %q", out, err, test.want)
			}
		})
	}
}

// TestKubectlWatch checks that kubectl get --watch prints changes.
func TestKubectlWatch(t *testing.T) {
	s := New(t, Options{})
	k := newKubectl(t, s)
	secrets := s.Client().CoreV1().Secrets("default")
	created, err := secrets.Create(t.Context(), newSecret("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := k.command("", "get", "secret", "a", "--watch")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewScanner(pipe)
	line := func(want string) {
		t.Helper()
		if out.Scan(); !strings.HasPrefix(out.Text(), want) {
			t.Errorf("got line %q, want one with %s", out.Text(), want)
		}
	}
	line("NAME")
	line("a ")
	if err := s.WaitFor(t.Context(), func() bool { return s.OpenStreams("secrets", key("a")) == 1 }); err != nil {
		t.Fatal(err)
	}
	created.Data["more"] = []byte("x")
	if _, err := secrets.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	line("a ")
	s.Close() // kubectl ends with its watch
	_ = cmd.Wait()
}
