// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

const widgetManifest = `apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
spec: {size: 1}
`

// kubectl runs kubectl as a client of one server.
type kubectl struct {
	t       *testing.T
	program string
	env     []string
}

// findKubectl returns the kubectl that "make kubectl" builds or, if there is none, the one in PATH.
func findKubectl() (string, error) {
	built, err := filepath.Abs("../../_output/bin/kubectl")
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath(built); err == nil {
		return path, nil
	}
	return exec.LookPath("kubectl")
}

// newKubectl skips the test if there is no kubectl. In continuous integration it fails the test instead, because nobody
// would notice.
func newKubectl(t *testing.T, s *Server) *kubectl {
	t.Helper()
	program, err := findKubectl()
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf(`%v: run "make kubectl" before the tests`, err)
	}
	if err != nil {
		t.Skipf(`%v: run "make kubectl" first to run this test`, err)
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	check(t, s.WriteKubeconfig(kubeconfig))
	return &kubectl{t, program, append(os.Environ(), "HOME="+dir, "KUBECONFIG="+kubeconfig)}
}

func (k *kubectl) command(stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(k.t.Context(), k.program, args...)
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
	k := newKubectl(t, New(t, Options{CustomResources: customResources}))
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
		{"create ingress", "", "create ingress web --rule=a.test/*=web:80,tls=cert", []string{"ingress.networking.k8s.io/web created"}},
		{"get ingress", "", "get ing web", []string{"CLASS", "HOSTS", "PORTS", "a.test", "80, 443"}},
		{"create custom resource", widgetManifest, "create -f -", []string{"widget.example.com/one created"}},
		{"get custom resource", "", "get widgets.example.com", []string{"NAME", "AGE", "one"}},
		{"apply custom resource", strings.Replace(widgetManifest, "size: 1", "size: 2", 1), "apply -f -", []string{"widget.example.com/one configured"}},
		{"server-side apply of one", strings.Replace(widgetManifest, "size: 1", "size: 3", 1), "apply --server-side --force-conflicts -f -", []string{"serverside-applied"}},
		{"patch custom resource", "", `patch widget.v1.example.com one --type=merge -p {"spec":{"colour":"red"}}`, []string{"widget.example.com/one patched"}},
		{"read the custom resource", "", "get widgets.v1.example.com one -o jsonpath={.spec}", []string{`{"colour":"red","size":3}`}},
		{"delete custom resource", "", "delete widgets.v1.example.com one", []string{`widget.example.com "one" deleted`}},
		{"may everything", "", "auth can-i list secrets", []string{"yes"}},
		{"api-resources", "", "api-resources", []string{
			"secrets", "configmaps", "pods", "nodes", "namespaces", "serviceaccounts", "leases", "ingresses", "widgets", "zones", "selfsubjectaccessreviews",
		}},
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
