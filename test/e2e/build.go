// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Binaries are the programs of a control plane.
type Binaries struct{ APIServer, Etcd string }

// Build returns the programs of a control plane, and builds them first if necessary.
//
// It builds the module test/e2e/controlplane of the checkout around the working directory into
// _output/controlplane, and reuses that until the module or the Go version changes. One build runs at a time, with low
// priority, and writes its progress to log every few seconds. The environment variable KUBERNETES selects another minor
// version than that of the module, such as 1.37. Its build stands beside the others.
//
// The error says which step failed, with the last lines of the go command's output.
func Build(ctx context.Context, log io.Writer) (Binaries, error) {
	root, err := checkout()
	if err != nil {
		return Binaries{}, err
	}
	version, err := selectedVersion()
	if err != nil {
		return Binaries{}, err
	}
	b := builder{
		version:  version,
		module:   filepath.Join(root, "test", "e2e", "controlplane"),
		programs: []string{"k8s.io/kubernetes/cmd/kube-apiserver", "go.etcd.io/etcd/server/v3"},
		output:   filepath.Join(root, "_output", "controlplane"),
		log:      log,
	}
	return b.build(ctx)
}

// checkout returns the root of the checkout around the working directory. Tests run in the folder of their package.
func checkout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "e2e", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no test/e2e/controlplane/go.mod in or above %s: run it inside a checkout of refwatch", start)
		}
	}
}

// builder builds two of the tools of a module.
type builder struct {
	version  string   // of Kubernetes, "" for the one in go.mod
	module   string   // the folder of its go.mod
	programs []string // the packages of kube-apiserver and etcd
	output   string   // has one folder per build
	log      io.Writer
}

func (b builder) build(ctx context.Context) (Binaries, error) {
	key, err := b.key()
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(b.output, key)
	binaries := Binaries{APIServer: filepath.Join(dir, "kube-apiserver"), Etcd: filepath.Join(dir, "etcd")}
	if built(dir) {
		return binaries, nil
	}
	if err := os.MkdirAll(b.output, 0o755); err != nil {
		return Binaries{}, fmt.Errorf("making a folder for the control plane: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(b.output, "lock"), b.log)
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if built(dir) { // by the process that had the lock
		return binaries, nil
	}
	return binaries, b.install(ctx, dir)
}

func built(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// key returns the name of a build: a hash of its inputs.
func (b builder) key() (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, buildArgs, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprint(hash, b.version)
	for _, name := range moduleFiles {
		content, err := b.read(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:8]), nil
}

// read returns the content of a file of the module. A module without dependencies has no go.sum.
func (b builder) read(name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(b.module, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the module to build: %w", err)
	}
	return content, nil
}

// moduleFiles decide what is built.
var moduleFiles = []string{"go.mod", "go.sum"}

// buildArgs build small programs without cgo that do not depend on the path of the checkout.
var buildArgs = []string{"build", "-v", "-trimpath", "-buildvcs=false"}

// install builds into a temporary folder and renames it, so that dir is complete if it exists.
func (b builder) install(ctx context.Context, dir string) error {
	version, err := b.pinned(ctx)
	if err != nil {
		return err
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("removing an unfinished build: %w", err)
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return fmt.Errorf("making a folder for the build: %w", err)
	}
	args := append([]string{"-n", "10", "go"}, buildArgs...)
	if b.version != "" {
		flags, err := b.modfile(partial, version, b.version)
		if err != nil {
			return err
		}
		args, version = append(args, flags...), b.version
	}
	args = append(args, "-ldflags", versionFlags(version), "-o", partial+"/")
	args = append(args, b.programs...)
	cmd := exec.CommandContext(ctx, "nice", args...)
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if err := runWithProgress(cmd, b.log, "kube-apiserver "+version+" and etcd"); err != nil {
		return err
	}
	// go build names a program after the last element of its path, ignoring a version.
	if err := os.Rename(filepath.Join(partial, "server"), filepath.Join(partial, "etcd")); err != nil {
		return fmt.Errorf("renaming etcd: %w", err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("finishing the build: %w", err)
	}
	return nil
}

// pinned returns the version of Kubernetes in the module's go.mod.
func (b builder) pinned(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("finding the version of Kubernetes: %w\n%s", err, lastLines(string(output)))
	}
	return strings.TrimSpace(string(output)), nil
}

// versionFlags returns the linker flags that Kubernetes' own build sets. Without them the server reports version 0.0.0
// in /version and in its user agent.
func versionFlags(version string) string {
	flags := []string{"-s", "-w"}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, "-X "+pkg+".gitVersion="+version)
		if len(parts) == 3 {
			flags = append(flags, "-X "+pkg+".gitMajor="+parts[0], "-X "+pkg+".gitMinor="+parts[1])
		}
	}
	return strings.Join(flags, " ")
}
