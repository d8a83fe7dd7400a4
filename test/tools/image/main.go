// SPDX-License-Identifier: Apache-2.0

// Command image builds a program as an OCI image, without a daemon and without a base image:
//
//	image -o FOLDER [-version v0.1.0] [-arch arm64] PROGRAM...
//
// PROGRAM is the folder of a main package, which names the image. FOLDER gets an OCI image layout for each, named as
// the program. The image holds one static program, and runs it as user 65532: it has no shell and no package manager.
// The same source and the same Go give the same bytes: the times are
// that of HEAD.
//
// To push one: crane push FOLDER/nodeagent registry.example/nodeagent:v0.1.0
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

func main() {
	err := start(os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func start(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(out)
	folder := flags.String("o", "", "the `folder` for the images")
	version := flags.String("version", "", "the `version` in the labels")
	arch := flags.String("arch", runtime.GOARCH, "the `architecture`, as of GOARCH")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *folder == "" || flags.NArg() == 0 {
		return errors.New("-o FOLDER and the folder of at least one program are required")
	}
	for _, program := range flags.Args() {
		digest, err := build(program, filepath.Join(*folder, filepath.Base(program)), *version, *arch)
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		fmt.Fprintf(out, "%s: %s\n", filepath.Base(program), digest)
	}
	return nil
}

// build writes the image of a program as an OCI layout, and returns its digest.
func build(program, folder, version, arch string) (digest string, err error) {
	work, err := os.MkdirTemp("", "refwatch-image")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	name := filepath.Base(program)
	binary := filepath.Join(work, name)
	// The file has no identity of its own build, and no version control: only the source and Go decide its bytes.
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", binary, ".")
	command.Dir = program
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	log := exec.Command("git", "log", "-1", "--format=%H %cI")
	log.Dir = program
	head, err := log.Output()
	if err != nil {
		return "", fmt.Errorf("git log: %w", err)
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(string(head)), " ")
	at, err := time.Parse(time.RFC3339, seconds)
	if err != nil {
		return "", err
	}
	image, err := imageOf(binary, arch, at.UTC(), map[string]string{
		"org.opencontainers.image.title":    name,
		"org.opencontainers.image.source":   "https://github.com/refwatch/refwatch",
		"org.opencontainers.image.revision": commit,
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	})
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", err
	}
	if err := path.AppendImage(image); err != nil {
		return "", err
	}
	hash, err := image.Digest()
	return hash.String(), err
}
