// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// toolexec is the first argument when go runs this program in front of a tool
// (go help build, -toolexec).
const toolexec = "toolexec"

// instrumentFlag makes the compiler count branches, for the fuzzer.
const instrumentFlag = "-d=libfuzzer"

// instrumented are the packages whose branches lead the fuzzer, with those below them:
// the library, and what parses for it.
var instrumented = []string{
	"github.com/refwatch/refwatch",
	"command-line-arguments",
	"golang.org/x/net/http2",
	"google.golang.org/protobuf/encoding/protowire",
	"k8s.io/apimachinery/pkg/apis/meta/v1",
	"k8s.io/apimachinery/pkg/fields",
	"k8s.io/apimachinery/pkg/runtime/serializer",
	"k8s.io/apimachinery/pkg/util/json",
	"sigs.k8s.io/json",
}

// runTool runs a tool of go, and removes the flag from the compiler's arguments for any
// other package. It returns the exit code.
func runTool(args []string) int {
	tool := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if tool == "compile" && !isInstrumented(args) {
		args = slices.DeleteFunc(args, func(arg string) bool { return arg == instrumentFlag })
	}
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if tool == "compile" && slices.Contains(args, "-V=full") {
		return runVersion(command)
	}
	return exitCode(command.Run())
}

// runVersion makes go keep what this compiler makes apart from what the plain one makes:
// its version is part of the key in the build cache.
func runVersion(command *exec.Cmd) int {
	command.Stdout = nil
	version, err := command.Output()
	if err == nil {
		_, err = os.Stdout.WriteString(strings.TrimSpace(string(version)) + " instruments=" + strings.Join(instrumented, ",") + "\n")
	}
	return exitCode(err)
}

// isInstrumented reports whether the compiler's arguments are those of a package that is
// instrumented.
func isInstrumented(args []string) bool {
	i := slices.Index(args, "-p")
	if i < 0 || i+1 == len(args) {
		return false
	}
	return slices.ContainsFunc(instrumented, func(name string) bool {
		rest, ok := strings.CutPrefix(args[i+1], name)
		return ok && (rest == "" || strings.ContainsAny(rest[:1], "/_."))
	})
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return 1
}
