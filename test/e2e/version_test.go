// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSelectedVersion(t *testing.T) {
	for name, test := range map[string]struct{ value, want, err string }{
		"the default":             {"", "", ""},
		"the default by its name": {"1.36", "", ""},
		"another":                 {"1.37", "v1.37.2", ""},
		"none":                    {"1.35", "", "KUBERNETES=1.35: there is no such control plane; set it to one of 1.36, 1.37, or unset it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(versionVariable, test.value)
			got, err := selectedVersion()
			if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("got %q and error %v, want %q and %q", got, err, test.want, test.err)
			}
			if test.err == "" {
				return
			}
			if _, err := Build(t.Context(), &bytes.Buffer{}); err == nil || err.Error() != test.err {
				t.Errorf("Build: got error %v, want %s", err, test.err)
			}
		})
	}
}

// A build of another version stands beside that of go.mod, and leaves go.mod as it is.
func TestBuildOfAnotherVersion(t *testing.T) {
	b := smallModule(t)
	first, err := b.build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mod := filepath.Join(b.module, "go.mod")
	before := contentOf(t, mod)
	b.logged()
	b.version = "v1.3.1"
	second, err := b.build(t.Context())
	if err != nil || second == first {
		t.Fatalf("got %v and error %v, want another build than %v", second, err, first)
	}
	if logged := b.logged(); !strings.Contains(logged, "building kube-apiserver v1.3.1 and etcd") {
		t.Errorf("log: got %q, want the version", logged)
	}
	used := filepath.Join(filepath.Dir(second.APIServer), "go.mod")
	if got, want := contentOf(t, used), strings.ReplaceAll(before, "v1.2.3", "v1.3.1"); got != want {
		t.Errorf("used: got\n%swant\n%s", got, want)
	}
	if got := contentOf(t, mod); got != before {
		t.Errorf("go.mod: got\n%swant\n%s", got, before)
	}
	if again, err := b.build(t.Context()); err != nil || again != second || b.logged() != "" {
		t.Errorf("again: got %v and error %v, want %v without a build", again, err, second)
	}
}

func TestModfile(t *testing.T) {
	b, dir := builder{module: t.TempDir()}, t.TempDir()
	const sum = "k8s.io/api v0.36.3 h1:x\n"
	write(t, filepath.Join(b.module, "go.mod"), `module x

require (
	k8s.io/api v0.36.3
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubernetes v1.36.3
	google.golang.org/protobuf v1.36.12
)

replace k8s.io/api => k8s.io/api v0.36.3
`)
	write(t, filepath.Join(b.module, "go.sum"), sum)
	flags, err := b.modfile(dir, "v1.36.3", "v1.37.2")
	if want := "-mod=mod -modfile=" + filepath.Join(dir, "go.mod"); err != nil || strings.Join(flags, " ") != want {
		t.Errorf("got %q and error %v, want %s", flags, err, want)
	}
	const want = `module x

require (
	k8s.io/api v0.37.2
	k8s.io/klog/v2 v2.140.0
	k8s.io/kubernetes v1.37.2
	google.golang.org/protobuf v1.36.12
)

replace k8s.io/api => k8s.io/api v0.37.2
`
	if got := contentOf(t, filepath.Join(dir, "go.mod")); got != want {
		t.Errorf("go.mod: got\n%swant\n%s", got, want)
	}
	if got := contentOf(t, filepath.Join(dir, "go.sum")); got != sum {
		t.Errorf("go.sum: got\n%swant\n%s", got, sum)
	}
	if _, err := b.modfile(filepath.Join(dir, "missing"), "v1.36.3", "v1.37.2"); err == nil {
		t.Error("no folder: got no error, want one")
	}
	b.module = "\x00"
	if _, err := b.modfile(dir, "v1.36.3", "v1.37.2"); err == nil {
		t.Error("no module: got no error, want one")
	}
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
