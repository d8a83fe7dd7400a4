// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// examples are the programs of which CI builds images.
const examples = "../../../examples"

// imageIn returns the only image of a layout, which is valid.
func imageIn(t *testing.T, folder string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("layout: got %+v and %v, want one image", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	return image
}

// unpack writes the files of an image to a folder, and returns their names.
func unpack(t *testing.T, image v1.Image, folder string) (names []string) {
	t.Helper()
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if header.Mode != 0o555 {
			t.Errorf("%s: got mode %o, want 555", header.Name, header.Mode)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(header.Name)), content, os.FileMode(header.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// Two builds, in two folders, have one digest, and the image has the program and nothing else. The demo runs in it,
// without root.
func TestImages(t *testing.T) {
	copied := copyOf(t, "../../..")
	for _, name := range []string{"nodeagent", "ingresstls", "operator"} {
		t.Run(name, func(t *testing.T) {
			first := filepath.Join(t.TempDir(), name)
			var out strings.Builder
			for _, source := range []string{examples, filepath.Join(copied, "examples")} {
				if err := start([]string{"-o", filepath.Dir(first), "-version", "v0.0.1", filepath.Join(source, name)}, &out); err != nil {
					t.Fatal(err)
				}
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 2 || lines[0] != lines[1] || !strings.HasPrefix(lines[0], name+": sha256:") {
				t.Errorf("two builds: got %q, want one digest", lines)
			}
			image := imageIn(t, first)
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if got := config.Config; got.User != user || !slices.Equal(got.Entrypoint, []string{"/" + name}) ||
				got.Labels["org.opencontainers.image.version"] != "v0.0.1" || got.Labels["org.opencontainers.image.revision"] == "" {
				t.Errorf("config: got %+v, want the user, the program and the labels", got)
			}
			root := t.TempDir()
			if names := unpack(t, image, root); !slices.Equal(names, []string{name}) {
				t.Errorf("files: got %q, want the program only", names)
			}
			runDemo(t, root, name)
		})
	}
}

// copyOf returns another folder with the files of a repository that git knows or would add, and its HEAD.
func copyOf(t *testing.T, root string) string {
	t.Helper()
	folder := t.TempDir()
	script := `git clone -q --no-checkout "$1" "$2" && cd "$1" && git ls-files -coz --exclude-standard | xargs -0 -I{} sh -c '[ ! -e "$1" ] || cp -p --parents "$1" "$2"' sh {} "$2"`
	if output, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", absolute(t, root), folder).CombinedOutput(); err != nil {
		t.Fatalf("copy of the repository: %v\n%s", err, output)
	}
	return folder
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runDemo runs a demo in the root folder of an image, with a folder for temporary files as a pod gives it one. Only
// root may change the root folder of a process: another user runs the program where it is.
func runDemo(t *testing.T, root, name string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Logf("the image is not run on %s", runtime.GOOS)
		return
	}
	temporary := filepath.Join(root, "tmp")
	if err := errors.Join(os.Mkdir(temporary, 0o700), os.Chmod(temporary, 0o777), os.Chmod(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(root, name), "--once")
	command.Env = []string{"TMPDIR=" + temporary}
	if os.Getuid() == 0 {
		command = exec.CommandContext(t.Context(), "/"+name, "--once")
		command.Env, command.Dir = []string{"TMPDIR=/tmp"}, "/"
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		t.Errorf("demo: %v\n%s", err, &output)
	}
}

func TestRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"-o FOLDER and the folder of at least one program": {"-o", t.TempDir()},
		"go build": {"-o", t.TempDir(), filepath.Join(examples, "internal")},
		"unknown":  {"-unknown"},
	} {
		if err := start(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}
