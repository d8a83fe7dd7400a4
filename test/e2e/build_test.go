// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// smallModule returns a builder of a module whose programs build in a second. Each program prints its name.
func smallModule(t *testing.T) builder {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"module/go.mod": "module example.com/small\n\ngo 1.26.0\n\n" +
			"require k8s.io/kubernetes v1.2.3\n\nreplace k8s.io/kubernetes => ./kubernetes\n",
		"module/kubernetes/go.mod":      "module k8s.io/kubernetes\n",
		"module/kube-apiserver/main.go": "package main\n\nfunc main() { println(\"apiserver\") }\n",
		"module/server/main.go":         "package main\n\nfunc main() { println(\"etcd\") }\n",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	return builder{
		module: filepath.Join(dir, "module"), output: filepath.Join(dir, "output"), log: &bytes.Buffer{},
		programs: []string{"example.com/small/kube-apiserver", "example.com/small/server"},
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// logged returns the builder's log since the last call.
func (b builder) logged() string {
	buffer := b.log.(*bytes.Buffer)
	defer buffer.Reset()
	return buffer.String()
}

// The first build builds both programs, and the next one reuses them. A changed go.mod causes another build.
func TestBuild(t *testing.T) {
	b := smallModule(t)
	first, err := b.build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if logged := b.logged(); !strings.Contains(logged, "building kube-apiserver v1.2.3 and etcd") {
		t.Errorf("log: got %q, want the names of the programs", logged)
	}
	for program, want := range map[string]string{first.APIServer: "apiserver\n", first.Etcd: "etcd\n"} {
		if got, err := exec.Command(program).CombinedOutput(); string(got) != want || err != nil {
			t.Errorf("%s: got %q and %v, want %q", program, got, err, want)
		}
	}
	again, err := b.build(t.Context())
	if logged := b.logged(); err != nil || again != first || logged != "" {
		t.Errorf("again: got %v, error %v and log %q, want %v without a build", again, err, logged, first)
	}
	mod := filepath.Join(b.module, "go.mod")
	content, err := os.ReadFile(mod)
	if err != nil {
		t.Fatal(err)
	}
	write(t, mod, string(content)+"// changed\n")
	changed, err := b.build(t.Context())
	if err != nil || changed == first || b.logged() == "" {
		t.Errorf("changed: got %v and %v, want another build than %v", changed, err, first)
	}
}

// A build that fails returns the compiler's error, and the next build starts again.
func TestBuildFails(t *testing.T) {
	b := smallModule(t)
	broken := filepath.Join(b.module, "server", "broken.go")
	write(t, broken, "package main\n\nvar x int = \"no number\"\n")
	if _, err := b.build(t.Context()); err == nil || !strings.Contains(err.Error(), "no number") {
		t.Errorf("got %v, want the compiler's error", err)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if _, err := b.build(t.Context()); err != nil {
		t.Errorf("repaired: got error %v, want none", err)
	}
}

func TestBuildErrors(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		change func(*testing.T, *builder)
		ctx    context.Context
		want   string
	}{
		"no module":         {func(t *testing.T, b *builder) { b.module = t.TempDir() }, t.Context(), "finding the version"},
		"no go.mod to read": {func(t *testing.T, b *builder) { b.module = "\x00" }, t.Context(), "reading the module to build"},
		"no output":         {func(t *testing.T, b *builder) { b.output = filepath.Join(b.module, "go.mod") }, t.Context(), "making a folder"},
		"canceled":          {func(*testing.T, *builder) {}, canceled, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			b := smallModule(t)
			test.change(t, &b)
			if _, err := b.build(test.ctx); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// While another process builds, build logs that it waits, and then uses that build.
func TestBuildWaitsForAnother(t *testing.T) {
	b := smallModule(t)
	if err := os.Mkdir(b.output, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFile(t.Context(), filepath.Join(b.output, "lock"), b.log)
	if err != nil {
		t.Fatal(err)
	}
	log := make(chan string, 10)
	b.log = lines(log)
	built := make(chan error, 1)
	go func() {
		_, err := b.build(t.Context())
		built <- err
	}()
	if line := receive(t, log); !strings.Contains(line, "another process") {
		t.Errorf("log: got %q, want that it waits", line)
	}
	key, err := b.key()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.output, key, "etcd"), "built by the other process")
	unlock()
	if err := receive(t, built); err != nil {
		t.Errorf("got %v, want none", err)
	}
	if len(log) > 0 {
		t.Errorf("log: got %q, want no build", <-log)
	}
}

// lines sends each write to a channel.
type lines chan<- string

func (l lines) Write(data []byte) (int, error) {
	l <- string(data)
	return len(data), nil
}

func TestLockFileErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ctx, path, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("context has ended: got %v, want %v", err, context.Canceled)
	}
	if _, err := lockFile(t.Context(), filepath.Join(path, "lock"), &bytes.Buffer{}); err == nil {
		t.Error("no folder: got no error, want one")
	}
}

// checkout works in every folder of a checkout, and fails outside.
func TestCheckout(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(root, "test", "bench", "deep")
	write(t, filepath.Join(inside, "x"), "")
	t.Chdir(inside)
	if got, err := checkout(); err == nil || !strings.Contains(err.Error(), "inside a checkout of refwatch") {
		t.Errorf("outside: got %q and error %v, want one that says what to do", got, err)
	}
	if _, err := Build(t.Context(), &bytes.Buffer{}); err == nil {
		t.Error("outside: got a build, want an error")
	}
	write(t, filepath.Join(root, "test", "e2e", "controlplane", "go.mod"), "module x\n")
	if got, err := checkout(); got != root || err != nil {
		t.Errorf("inside: got %q and %v, want %q", got, err, root)
	}
}

func TestVersionFlags(t *testing.T) {
	for version, want := range map[string]string{
		"v1.36.3": "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 " +
			"-X k8s.io/component-base/version.gitMinor=36 -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3 " +
			"-X k8s.io/client-go/pkg/version.gitMajor=1 -X k8s.io/client-go/pkg/version.gitMinor=36",
		"odd": "-s -w -X k8s.io/component-base/version.gitVersion=odd -X k8s.io/client-go/pkg/version.gitVersion=odd",
	} {
		if got := versionFlags(version); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}
