// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool builds a tool in the version that go.mod pins, and returns its path.
func tool(t *testing.T, pkg string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tool")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, pkg)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, output)
	}
	return program
}

// run runs a program in dir. It returns the output and the exit status.
func run(t *testing.T, dir string, env []string, program string, args ...string) (string, int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), env...)
	output, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatalf("%s: %v", program, err)
	}
	return string(output), command.ProcessState.ExitCode()
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// expect fails the test unless the exit status is as wanted and the output has each text.
func expect(t *testing.T, output string, status, wantStatus int, want ...string) {
	t.Helper()
	if status != wantStatus {
		t.Errorf("exit status: got %d, want %d\n%s", status, wantStatus, output)
	}
	for _, text := range want {
		if !strings.Contains(output, text) {
			t.Errorf("output lacks %q: got\n%s", text, output)
		}
	}
}

// An incompatible change fails the check until CHANGELOG.md names it.
func TestAPIDiff(t *testing.T) {
	apidiff, dir := tool(t, "golang.org/x/exp/cmd/apidiff"), t.TempDir()
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)
		if output, status := run(t, dir, nil, "git", args...); status != 0 {
			t.Fatalf("git %v: %s", args, output)
		}
	}
	check := func(env ...string) (string, int) {
		return run(t, dir, append([]string{"BASE="}, env...), script(t, "apidiff.sh"), apidiff, ".", "new")
	}
	git("init", "-q")
	write(t, dir, map[string]string{
		"go.mod":        "module example.com/m\n\ngo 1.26.0\n",
		"a/a.go":        "package a\n\ntype Options[T any] struct{ Name, Size T }\n\nfunc (*Options[T]) Reset() {}\n\nfunc Open() {}\n",
		"examples/x.go": "package x\n\nfunc Gone() {}\n",
		"new/go.mod":    "module example.com/m/new\n\ngo 1.26.0\n",
		"new/new.go":    "package new\n",
		"CHANGELOG.md":  "# Changelog\n\nOpen, Reset and Size exist.\n",
	})
	git("add", "a", "examples", "go.mod", "CHANGELOG.md")
	git("commit", "-q", "-m", "first")
	output, status := check()
	expect(t, output, status, 0, "NOTHING COMPARED")

	git("tag", "v0.1.0")
	write(t, dir, map[string]string{
		"a/a.go":        "package a\n\ntype Options[T any] struct{ Name T }\n\nfunc Close() {}\n",
		"examples/x.go": "package x\n",
	})
	output, status = check()
	expect(t, output, status, 1, "since v0.1.0", "./a.Close: added", "does not name Open:", "does not name Reset:",
		"does not name Size:", "example.com/m/new: new since v0.1.0")
	if strings.Contains(output, "Gone") {
		t.Errorf("output has a change of an example: %s", output)
	}

	write(t, dir, map[string]string{"CHANGELOG.md": "# Changelog\n\n- `Open`, `Options.Reset` and `Options.Size` are gone.\n\nOpen, Reset and Size exist.\n"})
	output, status = check()
	expect(t, output, status, 0, "./a.Open: removed")
	git("commit", "-q", "-a", "-m", "second")
	output, status = check("BASE=HEAD")
	expect(t, output, status, 0, "since HEAD")
	if strings.Contains(output, "Open") {
		t.Errorf("changes since HEAD: got %s, want none", output)
	}
}

// A vulnerability that is called fails the check. So does a database that was asked
// for and cannot be reached. Without one, offline, the check passes and says that it
// did not check.
func TestVulncheck(t *testing.T) {
	govulncheck, dir := tool(t, "golang.org/x/vuln/cmd/govulncheck"), t.TempDir()
	const time = "2026-01-02T15:04:05Z"
	write(t, dir, map[string]string{
		"vulnerable/go.mod":     "module example.com/vulnerable\n\ngo 1.26.0\n",
		"vulnerable/main.go":    "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"a\")) }\n",
		"good/go.mod":           "module example.com/good\n\ngo 1.26.0\n",
		"good/main.go":          "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToLower(\"A\")) }\n",
		"db/index/db.json":      `{"modified":"` + time + `"}`,
		"db/index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"` + time + `"}]}]`,
		"db/index/vulns.json":   `[{"id":"GO-2026-0001","modified":"` + time + `"}]`,
		"db/ID/GO-2026-0001.json": `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"` + time + `","published":"` + time + `",
			"database_specific":{"url":"https://pkg.go.dev/vuln/GO-2026-0001"},"summary":"A made-up vulnerability","details":"Made up.","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			
			"ecosystem_specific":{"imports":[{"path":"strings","symbols":["ToUpper"]}]}}]}`,
	})
	check := func(env []string, modules ...string) (string, int) {
		return run(t, dir, env, script(t, "vulncheck.sh"), append([]string{govulncheck}, modules...)...)
	}
	local := []string{"GOVULNDB=file://" + filepath.ToSlash(dir) + "/db"}
	unreachable := []string{"HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1"}

	output, status := check(local, "good")
	expect(t, output, status, 0, "No vulnerabilities found")
	output, status = check(local, "good", "vulnerable")
	expect(t, output, status, 1, "GO-2026-0001", "FOUND in vulnerable:")
	vex := filepath.Join(t.TempDir(), "vex")
	output, status = check(append(local, "VEX="+vex), "good", "vulnerable")
	expect(t, output, status, 1)
	for name, want := range map[string]string{"good": `"status": "not_affected"`, "vulnerable": `"status": "affected"`} {
		text, err := os.ReadFile(filepath.Join(vex, "example.com-"+name+".vex.json"))
		if err != nil || !strings.Contains(string(text), "GO-2026-0001") || !strings.Contains(string(text), want) {
			t.Errorf("OpenVEX document of %s: got %s and %v, want %s", name, text, err, want)
		}
	}
	output, status = check(append(unreachable, "GOVULNDB="), "good")
	expect(t, output, status, 0, "NOT CHECKED", "GOVULNDB=file:///")
	output, status = check(append(unreachable, "GOVULNDB=https://vuln.go.dev"), "good")
	expect(t, output, status, 1)
	output, status = check([]string{"GOVULNDB=file:///no-such-folder"}, "good")
	expect(t, output, status, 1)
}
